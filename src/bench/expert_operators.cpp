// Benchmarked operators of mixtures of experts: routing, and the way of rows to experts and back.

#include "bench/operator_families.hpp"
#include "ops/moe/moe.hpp"

namespace monotile::bench {
namespace {

Definition<ops::RouterArgs> router_definition() {
  return {"moe_router",
          {"rows", "experts", "top_k"},
          {DType::f32, DType::bf16, DType::f16},
          [](Data& d, const Dims& s, DType t) {
            ops::RouterArgs a;
            a.logits = d.input(t, {s[0], s[1]}, -4.0, 4.0);
            a.weights = d.output(DType::f32, {s[0], s[2]});
            a.experts = d.output(DType::i32, {s[0], s[2]});
            return a;
          },
          [](const Dims& s) { return 4.0 * static_cast<double>(s[0] * s[1]); },
          ops::router_reference_run,
          [](const ops::RouterArgs& a) { return a.logits.dim(0); },
          [](ops::RouterArgs& a, int64_t row) {
            cut_rows({&a.logits, &a.weights, &a.experts}, row);
          },
          [](const ops::RouterArgs& a) {
            return std::vector{a.weights, a.experts};
          }};
}

/// `top_k` different experts for each token.
TensorView random_experts(Data& d, int64_t tokens, int64_t experts, int64_t top_k) {
  std::vector<int64_t> chosen;
  ops::RandomData random(17);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t first = random.integer(0, experts - 1),
                  step = 1 + random.integer(0, std::max<int64_t>(0, experts / top_k - 1));
    for (int64_t j = 0; j < top_k; ++j) chosen.push_back((first + j * step) % experts);
  }
  return d.table(chosen).reshape({tokens, top_k});
}

constexpr int64_t kBlock = 64;

ops::AlignArgs align_outputs(Data& d, int64_t tokens, int64_t experts, int64_t top_k) {
  const int64_t capacity = ops::moe_align_capacity(tokens * top_k, experts, kBlock);
  ops::AlignArgs a;
  a.sorted = d.output(DType::i32, {capacity});
  a.positions = d.output(DType::i32, {tokens, top_k});
  a.offsets = d.output(DType::i32, {experts + 1});
  a.counts = d.output(DType::i32, {experts});
  a.block = kBlock;
  return a;
}

Definition<ops::AlignArgs> align_definition() {
  return {"moe_align",
          {"rows", "experts", "top_k"},
          {DType::i32},
          [](Data& d, const Dims& s, DType) {
            const TensorView experts = random_experts(d, s[0], s[1], s[2]);
            ops::AlignArgs a = align_outputs(d, s[0], s[1], s[2]);
            a.experts = experts;
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::align_reference_run,
          [](const ops::AlignArgs&) { return int64_t{1}; },
          [](ops::AlignArgs&, int64_t) {},
          [](const ops::AlignArgs& a) {
            return std::vector{a.sorted, a.positions, a.offsets, a.counts};
          }};
}

/// Router and sorting in one call.
Definition<ops::RouteArgs> route_definition() {
  return {"moe_route",
          {"rows", "experts", "top_k"},
          {DType::f32, DType::bf16, DType::f16},
          [](Data& d, const Dims& s, DType t) {
            ops::RouteArgs a;
            a.router.logits = d.input(t, {s[0], s[1]}, -4.0, 4.0);
            a.router.weights = d.output(DType::f32, {s[0], s[2]});
            a.router.experts = d.output(DType::i32, {s[0], s[2]});
            a.align = align_outputs(d, s[0], s[1], s[2]);
            return a;
          },
          [](const Dims& s) { return 4.0 * static_cast<double>(s[0] * s[1]); },
          ops::route_reference_run,
          [](const ops::RouteArgs&) { return int64_t{1}; },
          [](ops::RouteArgs&, int64_t) {},
          [](const ops::RouteArgs& a) {
            return std::vector{a.router.weights,  a.router.experts, a.align.sorted,
                               a.align.positions, a.align.offsets,  a.align.counts};
          }};
}

/// Places of (token, rank) pairs.
TensorView scattered_places(Data& d, int64_t tokens, int64_t top_k) {
  return d.table(scattered(tokens * top_k)).reshape({tokens, top_k});
}

Definition<ops::DispatchArgs> dispatch_definition() {
  return {"moe_dispatch",
          {"tokens", "cols", "top_k"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::DispatchArgs a;
            a.x = d.input(t, {s[0], s[1]});
            a.positions = scattered_places(d, s[0], s[2]);
            a.y = d.output(t, {s[0] * s[2], s[1]});
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::dispatch_reference_run,
          [](const ops::DispatchArgs& a) { return a.x.dim(0); },
          [](ops::DispatchArgs& a, int64_t token) {
            cut_rows({&a.x, &a.positions}, token);
          },
          [](const ops::DispatchArgs& a) {
            std::vector<TensorView> rows;
            for (int64_t j = 0; j < a.positions.dim(1); ++j) {
              const int64_t place = a.positions.as<int32_t>()[j];
              rows.push_back(a.y.slice(0, place, place + 1));
            }
            return rows;
          }};
}

Definition<ops::PermuteArgs> permute_definition() {
  return {"moe_permute",
          {"tokens", "cols", "top_k"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::PermuteArgs a;
            a.x = d.input(t, {s[0], s[1]});
            a.sorted = scattered_places(d, s[0], s[2]).reshape({s[0] * s[2]});
            a.y = d.output(t, {s[0] * s[2], s[1]});
            a.top_k = s[2];
            return a;
          },
          [](const Dims&) { return 0.0; },
          ops::permute_reference_run,
          [](const ops::PermuteArgs& a) { return a.y.dim(0); },
          [](ops::PermuteArgs& a, int64_t place) {
            cut_rows({&a.y, &a.sorted}, place);
          },
          [](const ops::PermuteArgs& a) { return std::vector{a.y}; }};
}

Definition<ops::CombineArgs> combine_definition() {
  return {"moe_combine",
          {"tokens", "cols", "top_k"},
          float_dtypes(),
          [](Data& d, const Dims& s, DType t) {
            ops::CombineArgs a;
            a.x = d.input(t, {s[0] * s[2], s[1]});
            a.weights = d.input(DType::f32, {s[0], s[2]}, 0.0, 1.0);
            a.positions = scattered_places(d, s[0], s[2]);
            a.y = d.output(t, {s[0], s[1]});
            return a;
          },
          [](const Dims& s) { return 2.0 * static_cast<double>(s[0] * s[1] * s[2]); },
          ops::combine_reference_run,
          [](const ops::CombineArgs& a) { return a.y.dim(0); },
          [](ops::CombineArgs& a, int64_t token) {
            cut_rows({&a.y, &a.weights, &a.positions}, token);
          },
          [](const ops::CombineArgs& a) { return std::vector{a.y}; },
          1.0};
}

}  // namespace

void add_expert_operators(OperatorList& list) {
  add(list, router_definition());
  add(list, align_definition());
  add(list, route_definition());
  add(list, dispatch_definition());
  add(list, permute_definition());
  add(list, combine_definition());
}

}  // namespace monotile::bench
