#include "kvist/base/student_t.h"

#include <boost/math/distributions/students_t.hpp>

#include "kvist/base/check.h"

namespace kvist {

double student_t_quantile(double probability, std::size_t degrees_of_freedom) {
  KVIST_CHECK(probability > 0 && probability < 1 && degrees_of_freedom > 0, "no such quantile");
  return boost::math::quantile(boost::math::students_t(static_cast<double>(degrees_of_freedom)), probability);
}

}  // namespace kvist
