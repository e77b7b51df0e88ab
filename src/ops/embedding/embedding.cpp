#include "ops/embedding/embedding.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = EmbeddingArgs::op_name;

constexpr const Implementation<EmbeddingArgs>* kImplementations[] = {
    &embedding_portable,
    &embedding_reference,
};

void check_args(const EmbeddingArgs& args, Device device) {
  check::present(op, "table", args.table, device);
  check::rank(op, "table", args.table, 2, 2);
  check::dtype(op, "table", args.table,
               {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k});
  check::inner_stride(op, "table", args.table);
  check::element_aligned(op, "table", args.table);

  check::indices(op, "ids", args.ids, device);

  check::present(op, "y", args.y, device);
  check::rank(op, "y", args.y, 2, 2);
  check::dtype(op, "y", args.y, {DType::f32, DType::f16, DType::bf16});
  check::extent(op, "y", args.y, 0, args.ids.dim(0));
  check::extent(op, "y", args.y, 1, args.table.dim(1));
  check::inner_stride(op, "y", args.y);
  check::element_aligned(op, "y", args.y);
  check::no_self_overlap(op, "y", args.y);
  check::disjoint(op, "y", args.y, "table", args.table);
  check::disjoint(op, "y", args.y, "ids", args.ids);
  check::optional_status(op, args.status, args.ids.dim(0), device, {{"y", args.y}, {"table", args.table}, {"ids", args.ids}});
}

/// Ids that the host can see are refused here where no status would tell.
void check_tables(const EmbeddingArgs& args) {
  if (!entry::host_readable(args.ids) || args.status.defined()) return;
  for (int64_t token = 0; token < args.ids.dim(0); ++token) {
    const int64_t id = reference::get_index(args.ids, token * args.ids.step(0));
    if (id >= 0 && id < args.table.dim(0)) continue;
    check::fail(op, "ids", "id " + std::to_string(id) + " of token " + std::to_string(token),
                "0 to " + std::to_string(args.table.dim(0) - 1));
  }
}

}  // namespace

template <>
Plan<EmbeddingArgs> plan(Device device, const EmbeddingArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  check_tables(args);
  if (args.y.size() == 0) return entry::empty_plan<EmbeddingArgs>(device);
  return detail::choose<EmbeddingArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo embedding_operator = {
    "embedding",
    "embedding",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      EmbeddingArgs args;
      args.y = dummy_view(info, DType::bf16, {64, 4096});
      args.table = dummy_view(info, DType::bf16, {128256, 4096});
      args.ids = dummy_view(info, DType::i32, {64});
      return detail::explain<EmbeddingArgs>(kImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      for (const DType table : {DType::bf16, DType::q8_0}) {
        const std::string wrong = self_test<EmbeddingArgs>(info, embedding_reference_run, [table](SelfTestCase& c) {
          EmbeddingArgs args;
          args.table = c.random(table, {7, 96});
          args.ids = c.values(DType::i32, {6, 0, 7, 3, -1});
          args.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0, 0}), 0.0);
          args.y = c.output("y", DType::bf16, {5, 96}, 0x1p-7);
          args.scale = 1.5f;
          return args;
        });
        if (!wrong.empty()) return wrong;
      }
      return std::string();
    },
};

}  // namespace ops

}  // namespace monotile
