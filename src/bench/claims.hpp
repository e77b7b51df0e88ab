#pragma once
// docs/claims.md: what the field says, beside what was measured here.

#include <string>

#include "bench/report.hpp"

namespace monotile::bench {

/// Markdown. Each claim with measurement, verdict and the command that measures it again. `source`: root of the repository, for
/// counts of lines.
std::string claims_markdown(const Report& report, const std::string& source, const std::string& result_name);

}  // namespace monotile::bench
