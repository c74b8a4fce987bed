#include "kvist/doctor/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/base/json_writer.h"

namespace kvist::doctor {
namespace {

/// What peers said is among it: it does nothing to a terminal.
std::string printable(std::string text) {
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return text;
}

std::string counted(std::size_t number, std::string_view what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      break;
  }
  return "error";
}

std::size_t count(std::span<const Finding> findings, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
}

std::string findings_text(std::string_view subject, std::span<const Finding> findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text +=
        printable(fmt::format("{} [{}] {}: {}", to_string(finding.severity), finding.id, finding.where, finding.what));
    text += '\n';
    if (!finding.right.empty()) text += "    " + printable(finding.right) + "\n";
  }
  return text + fmt::format("{}: {}, {}", printable(std::string(subject)),
                            counted(count(findings, Severity::kError), "error"),
                            counted(count(findings, Severity::kWarning), "warning"));
}

std::string findings_json(std::string_view subject, std::span<const Finding> findings) {
  JsonWriter json(2);
  json.begin_object().field("subject", subject).field("errors", count(findings, Severity::kError));
  json.field("warnings", count(findings, Severity::kWarning)).key("findings").begin_array();
  for (const Finding& finding : findings) {
    json.begin_object().field("severity", to_string(finding.severity)).field("id", finding.id);
    json.field("where", finding.where).field("what", finding.what).field("right", finding.right).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace kvist::doctor
