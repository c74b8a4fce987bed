// Of what an error is: the setting that names a file which cannot be read.
#pragma once

#include <expected>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"

namespace kvist {

/// The result, with "context: " before its error if it is one.
template <class T>
[[nodiscard]] Result<T> within(std::string_view context, Result<T> result) {
  if (!result) return std::unexpected(std::move(result).error().in(context));
  return result;
}

}  // namespace kvist
