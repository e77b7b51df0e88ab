// Rows by index: checks, oracle, portable tier, catalogue entry.

#include <cstring>

#include "ops/check.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/entry.hpp"
#include "ops/kv_cache/copy_rows.hpp"
#include "ops/reference.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace ops {

namespace {

constexpr const char* op = GatherRowsArgs::op_name;

copy_rows::Pair pair_of(const GatherRowsArgs& a) {
  return {{a.y, {a.y.step(0), 0, 0}}, {a.x, {a.x.step(0), 0, 0}}, a.x.dim(1)};
}

copy_rows::Choice choice_of(const GatherRowsArgs& a, const DeviceInfo& device) {
  const copy_rows::Pair pairs[2] = {pair_of(a), {}};
  return copy_rows::choose(pairs, device);
}

const char* supports(const GatherRowsArgs& a, const DeviceInfo& device) {
  if (a.ids.dim(0) > INT32_MAX) return "more than 2^31 - 1 rows";
  return copy_rows::kernel_of(choice_of(a, device), device) == nullptr ? "not built for this target" : nullptr;
}

double cost(const GatherRowsArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const GatherRowsArgs& a, const DeviceInfo& device, Plan<GatherRowsArgs>& plan) {
  const copy_rows::Choice choice = choice_of(a, device);
  plan.kernel = copy_rows::kernel_of(choice, device);
  plan.config = choice.packed();
}

template <class T>
void launch(const Plan<GatherRowsArgs>& plan, Stream& stream, const GatherRowsArgs& a) {
  kernels::CopyRowsParams<T> p{};
  p.from_index = index_vector(a.ids);
  p.index_step = 1;
  p.items = a.ids.dim(0);
  p.a = p.b = 1;
  p.from_count = a.x.dim(0);
  p.to_count = a.y.dim(0);
  p.status = a.status.as<int32_t>();
  p.zeros = true;
  const copy_rows::Pair pairs[2] = {pair_of(a), {}};
  copy_rows::launch<T>(plan.kernel, stream, p, pairs, copy_rows::Choice::unpacked(plan.config));
}

void run_portable(const Plan<GatherRowsArgs>& plan, Stream& stream, const GatherRowsArgs& a, void*) {
  if (a.y.size() == 0) return;
  plan.config[0] != 0 ? launch<float>(plan, stream, a) : launch<uint8_t>(plan, stream, a);
}

}  // namespace

void gather_rows_reference_run(const GatherRowsArgs& a) {
  const int64_t size = dtype_info(a.x.dtype).block_bytes;
  const size_t bytes = static_cast<size_t>(a.x.dim(1) * size);
  for (int64_t t = 0; t < a.ids.dim(0); ++t) {
    const int64_t id = reference::get_index(a.ids, t * a.ids.step(0));
    char* const y = a.y.as<char>() + t * a.y.step(0) * size;
    if (id >= 0 && id < a.x.dim(0)) {
      std::memcpy(y, a.x.as<char>() + id * a.x.step(0) * size, bytes);
    } else {
      std::memset(y, 0, bytes);
      if (a.status.defined()) reference::set(a.status, t, 1);
    }
  }
}

const Implementation<GatherRowsArgs> gather_rows_portable{"portable", Tier::portable, supports,
                                                          cost,       make_plan,      run_portable};
constinit const Implementation<GatherRowsArgs> gather_rows_reference =
    reference::implementation<GatherRowsArgs, gather_rows_reference_run>("gather_rows_reference");

namespace {

constexpr const Implementation<GatherRowsArgs>* kImplementations[] = {&gather_rows_portable, &gather_rows_reference};

void check_args(const GatherRowsArgs& a, Device device) {
  for (const auto& [name, view] : {std::pair<const char*, const TensorView*>{"x", &a.x}, {"y", &a.y}}) {
    check::present(op, name, *view, device);
    check::rank(op, name, *view, 2, 2);
    const DTypeInfo info = dtype_info(view->dtype);
    if (info.block_elements != 1 || info.block_bytes == 0)
      check::fail(op, name, std::string("dtype ") + info.name, "a plain dtype");
    check::inner_stride(op, name, *view);
    check::element_aligned(op, name, *view);
  }
  check::same_dtype(op, "y", a.y, "x", a.x);
  check::extent(op, "y", a.y, 1, a.x.dim(1));
  check::no_self_overlap(op, "y", a.y);
  check::indices(op, "ids", a.ids, device);
  check::extent(op, "ids", a.ids, 0, a.y.dim(0));
  check::disjoint(op, "y", a.y, "x", a.x);
  check::disjoint(op, "y", a.y, "ids", a.ids);
  check::optional_status(op, a.status, a.ids.dim(0), device, {{"y", a.y}, {"x", a.x}, {"ids", a.ids}});
  if (!entry::host_readable(a.ids) || a.status.defined()) return;
  for (int64_t t = 0; t < a.ids.dim(0); ++t) {
    const int64_t id = reference::get_index(a.ids, t * a.ids.step(0));
    if (id < 0 || id >= a.x.dim(0))
      check::fail(op, "ids", "id " + std::to_string(id) + " of row " + std::to_string(t),
                  "0 to " + std::to_string(a.x.dim(0) - 1));
  }
}

}  // namespace

const OperatorInfo gather_rows_operator = {
    "gather_rows",
    "embedding",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView x = dummy_view(info, DType::bf16, {64, 4096});
      return detail::explain<GatherRowsArgs>(kImplementations, info, {x, x, dummy_view(info, DType::i32, {64}), {}},
                                             policy);
    },
    [](const DeviceInfo& info) {
      return self_test<GatherRowsArgs>(info, gather_rows_reference_run, [](SelfTestCase& c) {
        GatherRowsArgs a;
        a.x = c.random(DType::bf16, {6, 77});
        a.y = c.output("y", DType::bf16, {4, 77}, 0.0);
        a.ids = c.values(DType::i64, {5, 0, 6, -1});
        a.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0}), 0.0);
        return a;
      });
    },
};

}  // namespace ops

template <>
Plan<ops::GatherRowsArgs> plan(Device device, const ops::GatherRowsArgs& args, const TierPolicy& policy) {
  ops::check_args(args, device);
  if (args.y.size() == 0) return ops::entry::empty_plan<ops::GatherRowsArgs>(device);
  return detail::choose<ops::GatherRowsArgs>(ops::op, ops::kImplementations, device, args, policy);
}

}  // namespace monotile
