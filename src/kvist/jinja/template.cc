#include "kvist/jinja/template.h"

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kvist/jinja/ast.h"
#include "kvist/jinja/interpreter.h"
#include "kvist/jinja/parser.h"

namespace kvist::jinja {
namespace {

constexpr std::string_view kMessages = "messages";
constexpr std::string_view kContent = "content";

/// Collects the loops and assignments of a template, at any depth.
class Search {
 public:
  explicit Search(const Program& program) : program_(&program) { collect(program.body); }

  [[nodiscard]] bool finds_content_loop() const {
    std::vector<NameId> lists;
    if (!find_lists(lists)) return false;
    std::vector<NameId> items;
    for (const For* loop : loops_) {
      if (!std::ranges::any_of(lists, [&](NameId name) { return reads(*loop->iterable, name, {}); })) continue;
      if (!has_one_target(*loop)) return false;
      items.push_back(loop->targets.front());
    }
    for (const For* loop : loops_)
      if (std::ranges::any_of(items, [&](NameId name) { return reads(*loop->iterable, name, kContent); }))
        return has_one_target(*loop);
    return false;
  }

 private:
  static bool has_one_target(const For& loop) { return !loop.unpacks && loop.targets.size() == 1; }

  // Finds the variables that stand for the messages. Returns false if they cannot be determined.
  [[nodiscard]] bool find_lists(std::vector<NameId>& lists) const {
    for (NameId id = 0; id < program_->names.size(); ++id)
      if (program_->name(id) == kMessages) lists.push_back(id);
    for (std::size_t next = 0; next < lists.size(); ++next) {
      for (const Set* set : sets_) {
        if (!reads(*set->value, lists[next], {})) continue;
        const SetTarget& target = set->target;
        if (target.unpacks || target.names.size() != 1 || !target.attribute.empty()) return false;
        if (std::ranges::find(lists, target.names.front()) == lists.end()) lists.push_back(target.names.front());
      }
    }
    return true;
  }

  // Whether the expression is that variable, or its attribute if one is given, possibly with filters, tests and slices
  // applied.
  [[nodiscard]] static bool reads(const Expression& expression, NameId variable, std::string_view attribute) {
    if (const Expression* inner = within(expression)) return reads(*inner, variable, attribute);
    const auto is_variable = [&](const Expression& other) {
      const auto* found = std::get_if<Variable>(&other.node);
      return found != nullptr && found->name == variable;
    };
    if (attribute.empty()) return is_variable(expression);
    if (const auto* access = std::get_if<Attribute>(&expression.node))
      return access->name == attribute && is_variable(*access->object);
    const auto* access = std::get_if<Subscript>(&expression.node);
    if (access == nullptr || !is_variable(*access->object)) return false;
    const auto* key = std::get_if<Literal>(&access->key->node);
    const MarkedText* name = key == nullptr ? nullptr : key->value.text();
    return name != nullptr && name->bytes() == attribute;
  }

  // The expression to which a filter, a test or a slice is applied. A method's object does not count.
  [[nodiscard]] static const Expression* within(const Expression& expression) {
    if (const auto* slice = std::get_if<Slice>(&expression.node)) return slice->object.get();
    if (const auto* test = std::get_if<Test>(&expression.node)) return test->call.input.get();
    const auto* call = std::get_if<Call>(&expression.node);
    if (call == nullptr || call->input == nullptr) return nullptr;
    return find_filter(call->function->name) == call->function ? call->input.get() : nullptr;
  }

  void collect(const Block& block) {
    for (const Statement& statement : block) std::visit([this](const auto& node) { enter(node); }, statement.node);
  }
  void enter(const If& node) {
    for (const auto& [condition, body] : node.branches) collect(body);
    collect(node.otherwise);
  }
  void enter(const For& node) {
    loops_.push_back(&node);
    collect(node.body);
    collect(node.otherwise);
  }
  void enter(const Set& node) {
    if (!node.captures) sets_.push_back(&node);
    collect(node.body);
  }
  void enter(const MacroDefinition& node) { collect(node.macro->body); }
  void enter(const FilterBlock& node) { collect(node.body); }
  template <typename Leaf>
    requires(std::is_same_v<Leaf, TextStatement> || std::is_same_v<Leaf, Output> || std::is_same_v<Leaf, Break> ||
             std::is_same_v<Leaf, Continue>)
  void enter(const Leaf& /*node*/) {}

  const Program* program_;
  std::vector<const For*> loops_;
  std::vector<const Set*> sets_;
};

/// Whether there is a loop over the attribute `content` of a variable of a loop over `messages`, or over a variable
/// that was set to it. Filters, tests and slices on the way make no difference; conditions and scopes are ignored. This
/// is the rule by which vLLM chooses between contents as text and in parts, including its gaps: a target that is not a
/// plain variable ends the search with false.
bool loops_over_content(const Program& program) {
  return Search(program).finds_content_loop();
}

}  // namespace

Template::Template(std::unique_ptr<const Program> program)
    : program_(std::move(program)), reads_content_items_(loops_over_content(*program_)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::compile(std::string_view source, std::span<const std::string> host_functions) {
  KVIST_TRY(Program program, parse(source, host_functions));
  return Template(std::make_unique<const Program>(std::move(program)));
}

Result<MarkedText> Template::render(Meter& meter, const Variables& variables,
                                    std::optional<std::chrono::local_seconds> now) const {
  Interpreter interpreter(*program_, meter, now);
  for (const auto& [name, value] : variables) interpreter.set_global(name, value);
  return interpreter.run();
}

}  // namespace kvist::jinja
