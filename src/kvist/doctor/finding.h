// What an examination found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvist::doctor {

enum class Severity : std::uint8_t {
  kInfo,     ///< good to know
  kWarning,  ///< works, but worse than it could, or not for long
  kError,    ///< does not work as configured
};
/// "info", "warning", "error"
[[nodiscard]] std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::kInfo;
  std::string_view id;  ///< a fixed word for programs: "block_size_differs"
  std::string where;    ///< "worker gpu-0", "gateway", "this machine"
  std::string what;     ///< is the matter
  std::string right;    ///< what would be right, or what to do
};

[[nodiscard]] std::size_t count(std::span<const Finding> findings, Severity severity);
/// A paragraph per finding and a last line with their numbers; `subject` is what was examined.
[[nodiscard]] std::string findings_text(std::string_view subject, std::span<const Finding> findings);
/// {"subject","errors","warnings","findings":[{"severity","id","where","what","right"}]}
[[nodiscard]] std::string findings_json(std::string_view subject, std::span<const Finding> findings);

}  // namespace kvist::doctor
