#include <algorithm>

#include "ops/reference.hpp"
#include "ops/rope/rope.hpp"

namespace monotile::ops {

namespace {

void rotate(const RopeArgs& args, const TensorView& out, const TensorView& in) {
  const int64_t head_dim = in.dim(2), half = args.cos.dim(1);
  for (int64_t token = 0; token < in.dim(0); ++token) {
    const int64_t position = std::clamp<int64_t>(reference::get_index(args.positions, token * args.positions.step(0)),
                                                 0, args.cos.dim(0) - 1);
    for (int64_t head = 0; head < in.dim(1); ++head) {
      const int64_t source = token * in.step(0) + head * in.step(1), target = token * out.step(0) + head * out.step(1);
      for (int64_t pair = 0; pair < half; ++pair) {
        const int64_t first = args.interleaved ? 2 * pair : pair,
                      second = args.interleaved ? 2 * pair + 1 : pair + half;
        const double a = reference::get(in, source + first), b = reference::get(in, source + second);
        const double c = reference::get(args.cos, position * args.cos.step(0) + pair);
        const double s = reference::get(args.sin, position * args.sin.step(0) + pair);
        reference::set(out, target + first, a * c - b * s);
        reference::set(out, target + second, b * c + a * s);
      }
      for (int64_t i = 2 * half; i < head_dim; ++i) reference::set(out, target + i, reference::get(in, source + i));
    }
  }
}

}  // namespace

void rope_reference_run(const RopeArgs& args) {
  rotate(args, args.q_out, args.q);
  if (args.k.defined()) rotate(args, args.k_out, args.k);
  if (!args.status.defined()) return;
  for (int64_t token = 0; token < args.positions.dim(0); ++token) {
    const int64_t position = reference::get_index(args.positions, token * args.positions.step(0));
    if (position < 0 || position >= args.cos.dim(0)) reference::set(args.status, token, 1);
  }
}

constinit const Implementation<RopeArgs> rope_reference =
    reference::implementation<RopeArgs, rope_reference_run>("rope_reference");

}  // namespace monotile::ops
