#pragma once
// Two results side by side: is the second slower?

#include <string>
#include <vector>

#include "bench/report.hpp"

namespace monotile::bench {

enum class Judgement { same, faster, slower, cannot_tell };

struct Comparison {
  const Row *before = nullptr, *after = nullptr;
  double ratio = 0;  ///< speed after over speed before
  Judgement judgement = Judgement::same;
};

/// Rows that both have, by key. `slower`: speed fell below `fail_under`; `cannot_tell`: it seems so (or it seems to be
/// above 1 / fail_under), but the two spreads overlap, so the difference may be noise.
std::vector<Comparison> compare(const Report& before, const Report& after, double fail_under);
/// Several runs of one build as one: per row the median of the runs' medians; its spread holds all of them and the usual
/// spread inside a run.
Report merged(const std::vector<Report>& runs);
std::string comparison_text(const std::vector<Comparison>& comparisons, double fail_under);

/// A table of figures that somebody published, checked against the device's limits and against itself: one line per row
/// that cannot be true. Rows: {"op", "shape", "us", and "tflops" or "gbs" as printed}; device and bytes per element once.
std::vector<std::string> refuse_published(const Json& table);

}  // namespace monotile::bench
