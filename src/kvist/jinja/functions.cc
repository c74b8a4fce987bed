#include "kvist/jinja/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace kvist::jinja {
namespace {

// -- methods of dictionaries and of texts and dictionaries

Result<const Dict*> dict_of(const Invocation& call, std::string_view method) {
  if (const Dict* dict = call.input->dict()) return dict;
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no method '{}'", kind_of(*call.input), method));
}

Result<Value> keys_method(const Invocation& call) {
  KVIST_TRY_VOID(dict_of(call, "keys"));
  KVIST_TRY(std::vector<Value> keys, items_of(*call.meter, *call.input));
  return make_list(*call.meter, std::move(keys));
}

Result<Value> values_method(const Invocation& call) {
  KVIST_TRY(const Dict* dict, dict_of(call, "values"));
  std::vector<Value> values;
  values.reserve(dict->entries.size());
  for (const auto& [key, value] : dict->entries) values.push_back(value);
  return make_list(*call.meter, std::move(values));
}

Result<Value> items_method(const Invocation& call) {
  KVIST_TRY_VOID(dict_of(call, "items"));
  return find_filter("items")->body(call);
}

Result<Value> get_method(const Invocation& call) {
  KVIST_TRY(const Dict* dict, dict_of(call, "get"));
  KVIST_TRY_VOID(call.meter->step(1 + dict->entries.size()));
  const Value* found = dict->find(call.arguments[0]);
  if (found != nullptr) return *found;
  return call.arguments[1].is_undefined() ? Value(None()) : call.arguments[1];
}

constexpr Function kDictMethods[] = {
    {"get", {"key", "default"}, 1, &get_method},
    {"items", {}, 0, &items_method},
    {"keys", {}, 0, &keys_method},
    {"values", {}, 0, &values_method},
};

// -- global functions

Result<Value> range(const Invocation& call) {
  const bool one = call.arguments[1].is_undefined();
  KVIST_TRY(const std::int64_t first, integer_argument(call, 0, "a number", 0));
  KVIST_TRY(const std::int64_t second, integer_argument(call, 1, "the end", 0));
  KVIST_TRY(const std::int64_t step, integer_argument(call, 2, "the step", 1));
  const std::int64_t begin = one ? 0 : first;
  const std::int64_t end = one ? first : second;
  if (step == 0) return fail(ErrorCode::kInvalidArgument, "range: the step is zero");
  std::vector<Value> numbers;
  for (std::int64_t number = begin; step > 0 ? number < end : number > end;) {
    KVIST_TRY_VOID(call.meter->step());
    KVIST_TRY_VOID(call.meter->allocate(sizeof(Value)));
    numbers.emplace_back(number);
    if (__builtin_add_overflow(number, step, &number)) break;
  }
  return make_list(*call.meter, std::move(numbers));
}

// Templates call this to refuse a conversation. The message is the template author's and is shown to the user.
Result<Value> raise_exception(const Invocation& call) {
  KVIST_TRY(const TextPtr message, to_text(*call.meter, call.arguments[0]));
  return fail(ErrorCode::kInvalidArgument, std::string(message->bytes()));
}

Result<std::string> formatted_time(char code, std::chrono::local_seconds now) {
  constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
  constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                          "July",    "August",   "September", "October", "November", "December"};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  const auto weekday = std::chrono::weekday(day).c_encoding();
  const auto month = static_cast<unsigned>(date.month());
  const auto hour = time.hours().count();
  switch (code) {
    case 'Y':
      return fmt::format("{:04}", static_cast<int>(date.year()));
    case 'y':
      return fmt::format("{:02}", static_cast<int>(date.year()) % 100);
    case 'm':
      return fmt::format("{:02}", month);
    case 'd':
      return fmt::format("{:02}", static_cast<unsigned>(date.day()));
    case 'B':
      return std::string(kMonths[month - 1]);
    case 'b':
      return std::string(kMonths[month - 1].substr(0, 3));
    case 'A':
      return std::string(kDays[weekday]);
    case 'a':
      return std::string(kDays[weekday].substr(0, 3));
    case 'H':
      return fmt::format("{:02}", hour);
    case 'I':
      return fmt::format("{:02}", hour % 12 == 0 ? 12 : hour % 12);
    case 'M':
      return fmt::format("{:02}", time.minutes().count());
    case 'S':
      return fmt::format("{:02}", time.seconds().count());
    case 'p':
      return hour < 12 ? "AM" : "PM";
    case 'j':
      return fmt::format("{:03}", (day - std::chrono::local_days(date.year() / 1 / 1)).count() + 1);
    case '%':
      return "%";
    default:
      return fail(ErrorCode::kInvalidArgument, fmt::format("strftime_now: the code %{} is not known", code));
  }
}

Result<Value> strftime_now(const Invocation& call) {
  KVIST_TRY(const MarkedText* format, text_argument(call, 0, "the format"));
  if (!call.now) return fail(ErrorCode::kInvalidArgument, "strftime_now: this rendering is not told the time");
  const std::string_view codes = format->bytes();
  std::string out;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    KVIST_TRY_VOID(call.meter->step());
    if (codes[i] != '%' || i + 1 == codes.size()) {
      out.push_back(codes[i]);
      continue;
    }
    ++i;
    const bool plain = codes[i] == '-' && i + 1 < codes.size();  // %-d: without leading zeros
    if (plain) ++i;
    KVIST_TRY(std::string part, formatted_time(codes[i], *call.now));
    if (plain) part.erase(0, std::min(part.find_first_not_of('0'), part.size() - 1));
    out += part;
  }
  return make_text(*call.meter, MarkedText(std::move(out)));
}

constexpr Function kGlobals[] = {
    {"raise_exception", {"message"}, 1, &raise_exception},
    {"range", {"start", "stop", "step"}, 1, &range},
    {"strftime_now", {"format"}, 1, &strftime_now},
};

const Function* find_in_tables(std::initializer_list<std::span<const Function>> tables, std::string_view name) {
  for (const std::span<const Function> table : tables) {
    const auto found = std::ranges::find(table, name, &Function::name);
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::size_t Function::parameter_count() const {
  return static_cast<std::size_t>(std::ranges::find(parameters, std::string_view()) - parameters.begin());
}

const Function* find_filter(std::string_view name) {
  return find_in_tables({text_filters(), list_filters(), number_filters()}, name);
}

const Function* find_test(std::string_view name) {
  return find_in_tables({tests()}, name);
}

const Function* find_method(std::string_view name) {
  return find_in_tables({text_methods(), kDictMethods}, name);
}

const Function* find_global(std::string_view name) {
  return find_in_tables({kGlobals}, name);
}

std::string known_names(FunctionKind kind) {
  std::vector<std::string_view> names;
  const auto add = [&names](std::span<const Function> table) {
    for (const Function& function : table) names.push_back(function.name);
  };
  switch (kind) {
    case FunctionKind::kFilter:
      add(text_filters());
      add(list_filters());
      add(number_filters());
      break;
    case FunctionKind::kTest:
      add(tests());
      break;
    case FunctionKind::kMethod:
      add(text_methods());
      add(kDictMethods);
      names.emplace_back("format");
      break;
    case FunctionKind::kGlobal:
      add(kGlobals);
      break;
  }
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<NamedParameter> function_parameter(const Function& filter) {
  if (filter.name == "map") return NamedParameter{0, FunctionKind::kFilter};
  if (filter.name == "select" || filter.name == "reject") return NamedParameter{0, FunctionKind::kTest};
  if (filter.name == "selectattr" || filter.name == "rejectattr") return NamedParameter{1, FunctionKind::kTest};
  return std::nullopt;
}

Result<const MarkedText*> text_argument(const Invocation& call, std::size_t index, std::string_view what) {
  if (const MarkedText* text = call.arguments[index].text()) return text;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} must be a text, got {}", what, kind_of(call.arguments[index])));
}

Result<std::int64_t> integer_argument(const Invocation& call, std::size_t index, std::string_view what,
                                      std::int64_t if_absent) {
  if (call.arguments[index].is_undefined()) return if_absent;
  if (const auto* integer = call.arguments[index].as<std::int64_t>()) return *integer;
  if (const auto* flag = call.arguments[index].as<bool>()) return *flag ? 1 : 0;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} must be an integer, got {}", what, kind_of(call.arguments[index])));
}

}  // namespace kvist::jinja
