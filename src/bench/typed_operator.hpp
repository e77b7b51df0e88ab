#pragma once
// The common part of all operators: buffer sets, candidates by tier, verification.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "bench/operator.hpp"
#include "ops/random_data.hpp"
#include "ops/reference.hpp"
#include "runtime/scoped_target.hpp"

namespace monotile::bench {

/// What must be said about an operator to benchmark it. `Args` is its argument struct.
template <class Args>
struct Definition {
  const char* name;
  std::vector<std::string> dims;
  std::vector<DType> dtypes;
  /// Arguments of one call. What `Data` makes is counted as traffic: inputs read once, outputs written once.
  Args (*make)(Data& data, const Dims& dims, DType dtype);
  double (*flops)(const Dims& dims);
  void (*reference)(const Args& args);
  /// Verification by parts: how many there are, the arguments of one, and what it writes.
  int64_t (*pieces)(const Args& args);
  void (*cut)(Args& args, int64_t piece);
  std::vector<TensorView> (*outputs)(const Args& args);
  /// An error may be one rounding of (|value| + scale), and what accumulation in fp32 may add.
  double scale = 0.1;
  double (*accumulation)(const Dims& dims) = nullptr;
  /// Codes of one byte may be this many steps of their format off, where what is rounded to them was computed; else none.
  int code_steps = 0;
  /// fp32 results follow from values that were rounded to the call's dtype, such as a scale from the largest of them: they may be as far off as that
  /// one rounding, which falls on the other side where the value lies next to the middle.
  bool fp32_of_rounded = false;
};

/// From |value| to the next code.
inline double step_of_code(DType codes, double value) {
  if (codes == DType::i8) return 1.0;
  const int bits = codes == DType::f8_e4m3 ? 3 : 2, lowest = codes == DType::f8_e4m3 ? -6 : -14;
  return std::ldexp(1.0, std::max(value == 0 ? lowest : std::ilogb(value), lowest) - bits);
}

/// Rows [row, row + 1) of each defined view.
inline void cut_rows(std::initializer_list<TensorView*> views, int64_t row) {
  for (TensorView* view : views) {
    if (view->defined()) *view = view->slice(0, row, row + 1);
  }
}

template <class Args>
class TypedCase : public Case {
 public:
  TypedCase(const Definition<Args>& definition, Stream& stream, const Timeline& timeline, const Dims& dims, DType dtype,
            Cache cache, size_t memory_budget)
      : definition_(definition), stream_(stream), dims_(dims), dtype_(dtype) {
    add_set();
    const int sets = cache == Cache::cold
                         ? cold_sets(timeline, static_cast<size_t>(bytes()), sets_[0]->data.bytes(), memory_budget)
                         : 1;
    while (static_cast<int>(sets_.size()) < sets) add_set();
  }

  double bytes() const override { return sets_[0]->data.read_bytes() + sets_[0]->data.written_bytes(); }
  double flops() const override { return definition_.flops(dims_); }
  int sets() const override { return static_cast<int>(sets_.size()); }
  bool changes_inputs() const override { return sets_[0]->data.changes_inputs(); }
  void reset() override {
    for (auto& set : sets_) set->data.reset();
  }

  std::vector<Candidate> candidates(const std::vector<std::string>& columns) override {
    const auto wanted = [&](const std::string& column, bool by_default = true) {
      return columns.empty() ? by_default : std::find(columns.begin(), columns.end(), column) != columns.end();
    };
    std::vector<Candidate> all;
    const DeviceInfo& info = device_info(stream_.device());
    const char* chosen = nullptr;
    try {
      chosen = plan(stream_.device(), sets_[0]->args, TierPolicy{}).implementation->name;
    } catch (const Error&) {
      chosen = nullptr;  // each tier then says why
    }
    for (const Tier tier : {Tier::portable, Tier::tuned, Tier::vendor, Tier::reference}) {
      if (!wanted(to_string(tier), tier != Tier::reference)) continue;
      if (add_tier(all, to_string(tier), tier) && chosen != nullptr)
        all.back().chosen = all.back().implementation == chosen;
    }
    if (info.path == "cuda_sm90" && wanted("portable_sm80")) {
      const ScopedTarget ampere(Target::cuda_sm80);
      add_tier(all, "portable_sm80", Tier::portable);
    }
    const bool others = wanted("naive") || wanted("native") || wanted("vendor");  // looking for libraries takes time
    for (const Baseline<Args>& baseline : others ? baselines(info, sets_[0]->args) : Baselines<Args>{}) {
      if (!wanted(baseline.column)) continue;
      Candidate candidate{baseline.column, baseline.name};
      candidate.launch = [this, launch = baseline.launch](int set) {
        launch(stream_, sets_[static_cast<size_t>(set)]->args);
      };
      all.push_back(std::move(candidate));
    }
    return all;
  }

  Accuracy check(int set) override {
    if (expected_.set != set) prepare_check(set);
    expected_.got->take_outputs(sets_[static_cast<size_t>(set)]->data);
    Accuracy accuracy;
    accuracy.wrong = expected_.got->unwritten();
    for (size_t p = 0; p < expected_.pieces.size() && accuracy.wrong.empty(); ++p) {
      Args have = *expected_.got_args;
      definition_.cut(have, expected_.pieces[p]);
      const std::vector<TensorView> given = definition_.outputs(have);
      for (size_t v = 0; v < given.size(); ++v)
        compare(expected_.values[p][v], given[v], expected_.pieces[p], accuracy);
    }
    return accuracy;
  }

 private:
  struct Set {
    Data data;
    Args args;
    Set(const Definition<Args>& definition, Stream& stream, uint64_t seed, const Dims& dims, DType dtype)
        : data(stream, seed), args(definition.make(data, dims, dtype)) {}
  };

  static uint64_t seed_of(size_t set) { return 42 + 131 * set; }
  void add_set() { sets_.push_back(std::make_unique<Set>(definition_, stream_, seed_of(sets_.size()), dims_, dtype_)); }

  bool add_tier(std::vector<Candidate>& all, const char* column, Tier tier) {
    try {
      const Plan<Args> chosen = plan(stream_.device(), sets_[0]->args, TierPolicy{tier, false});
      if (chosen.implementation->tier != tier) return false;
      Candidate candidate{column, chosen.implementation->name};
      candidate.workspace_bytes = chosen.workspace_bytes;
      if (chosen.workspace_bytes > workspace_.size()) workspace_ = Buffer(stream_.device(), chosen.workspace_bytes);
      candidate.launch = [this, chosen](int set) {
        chosen.run(stream_, sets_[static_cast<size_t>(set)]->args, workspace_.data());
      };
      all.push_back(std::move(candidate));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      return false;
    }
  }

  /// Sampled pieces of the reference's result, once for all candidates.
  void prepare_check(int set) {
    constexpr int64_t kElements = 4096, kFewestPieces = 8, kMostPieces = 512;
    const uint64_t seed = seed_of(static_cast<size_t>(set));
    Data data(host_, seed);
    const Args args = definition_.make(data, dims_, dtype_);
    const std::string constant = data.constant_input();
    if (!constant.empty()) throw Fault(FaultKind::constant_input, constant);
    expected_ = {};
    const int64_t pieces = definition_.pieces(args);
    ops::RandomData random(seed + 99);
    std::set<int64_t> seen;
    int64_t elements = 0;
    for (int64_t i = 0; i < kMostPieces && (elements < kElements || i < kFewestPieces); ++i) {
      // The ends always, the rest at random.
      const int64_t piece = i == 0 ? 0 : i == 1 ? pieces - 1 : random.integer(0, pieces - 1);
      if (!seen.insert(piece).second) continue;  // a second run would change an in-place tensor again
      Args want = args;
      definition_.cut(want, piece);
      definition_.reference(want);
      expected_.pieces.push_back(piece);
      std::vector<std::vector<double>>& values = expected_.values.emplace_back();
      for (const TensorView& view : definition_.outputs(want)) {
        values.push_back(elements_of(view));
        elements += view.size();
      }
    }
    expected_.set = set;
    expected_.got = std::make_unique<Data>(host_, seed);
    expected_.got_args = std::make_unique<Args>(definition_.make(*expected_.got, dims_, dtype_));
  }

  static std::vector<double> elements_of(const TensorView& view) {
    std::vector<double> values(static_cast<size_t>(view.size()));
    for (int64_t i = 0; i < view.size(); ++i) {
      int64_t offset = 0, rest = i;
      for (int axis = view.rank - 1; axis >= 0; --axis) {
        offset += rest % view.dim(axis) * view.step(axis);
        rest /= view.dim(axis);
      }
      values[static_cast<size_t>(i)] = ops::reference::get(view, offset);
    }
    return values;
  }

  void compare(const std::vector<double>& wanted, const TensorView& view, int64_t piece, Accuracy& accuracy) const {
    // Half a unit in the last place is what one rounding costs; the kernel's own arithmetic gets the other half.
    const DType rounded = view.dtype == DType::f32 && definition_.fp32_of_rounded ? dtype_ : view.dtype;
    const double unit = rounded == DType::f16    ? 0x1p-10
                        : rounded == DType::bf16 ? 0x1p-7
                        : rounded == DType::f32  ? 1e-5
                                                 : 0.0;
    const double accumulated = definition_.accumulation != nullptr ? definition_.accumulation(dims_) : 0.0;
    const std::vector<double> given = elements_of(view);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double x = given[i], y = wanted[i];
      ++accuracy.elements;
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      const double difference = std::abs(x - y);
      const double bound = is_code(view.dtype)
                               ? definition_.code_steps * step_of_code(view.dtype, std::max(std::abs(x), std::abs(y)))
                               : unit * (std::abs(y) + definition_.scale) + accumulated;
      const double ratio = std::isfinite(difference) && bound > 0 ? difference / bound : HUGE_VAL;
      accuracy.absolute = std::max(accuracy.absolute, difference);
      accuracy.worst = std::max(accuracy.worst, ratio);
      if (ratio > 1.0 && accuracy.wrong.empty())
        accuracy.wrong = fmt::format("part {}, element {} is {:g}, expected {:g}", piece, i, x, y);
    }
  }

  const Definition<Args>& definition_;
  Stream& stream_;
  Dims dims_;
  DType dtype_;
  Stream host_{Device{}};
  Buffer workspace_;
  struct Expected {
    int set = -1;
    std::vector<int64_t> pieces;
    std::vector<std::vector<std::vector<double>>> values;  ///< by piece and output
    std::unique_ptr<Data> got;
    std::unique_ptr<Args> got_args;
  } expected_;
  std::vector<std::unique_ptr<Set>> sets_;
};

template <class Args>
class TypedOperator : public Operator {
 public:
  explicit TypedOperator(Definition<Args> definition) : definition_(std::move(definition)) {
    name = definition_.name;
    dims = definition_.dims;
    dtypes = definition_.dtypes;
  }
  double flops(const Dims& shape) const override { return definition_.flops(shape); }
  std::unique_ptr<Case> make(Stream& stream, const Timeline& timeline, const Dims& shape, DType dtype, Cache cache,
                             size_t memory_budget) const override {
    if (shape.size() != dims.size()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--shapes: {}: shape {} has {} numbers; allowed: {} ({})", name, shape_text(shape),
                              shape.size(), dims.size(), fmt::join(dims, ",")));
    }
    return std::make_unique<TypedCase<Args>>(definition_, stream, timeline, shape, dtype, cache, memory_budget);
  }

 private:
  Definition<Args> definition_;
};

}  // namespace monotile::bench
