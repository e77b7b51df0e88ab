// The operators' definitions on the CPU: right kernels pass the check, wrong ones and constant inputs do not.

#include <gtest/gtest.h>

#include <cstring>

#include "bench/run_ops.hpp"
#include "bench/shapes.hpp"
#include "bench/typed_operator.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile::bench {
namespace {

const Operator& named(const std::string& name) {
  for (const auto& op : bench_operators()) {
    if (op->name == name) return *op;
  }
  throw std::runtime_error(name);
}

/// A small shape of each operator, by the names of its numbers.
Dims small(const Operator& op) {
  Dims dims;
  for (const std::string& name : op.dims) {
    dims.push_back(name == "kv_heads"                       ? 2
                   : name == "heads"                        ? 4
                   : name == "head_dim"                     ? 32
                   : name == "k"                            ? 512
                   : name == "cols" || name == "vocabulary" ? 130
                                                            : 5);
  }
  return dims;
}

/// f32, as the CPU is measured in, where the operator has it.
DType dtype_on_host(const Operator& op) {
  return std::find(op.dtypes.begin(), op.dtypes.end(), DType::f32) != op.dtypes.end() ? DType::f32 : op.dtypes.front();
}

TEST(BenchOperators, EachPassesItsOwnCheck) {
  Stream stream{Device{}};
  const auto timeline = timeline_of(stream);
  for (const auto& op : bench_operators()) {
    SCOPED_TRACE(op->name);
    const auto one = op->make(stream, *timeline, small(*op), dtype_on_host(*op), Cache::hot, 1 << 20);
    EXPECT_GT(one->bytes(), 0);
    bool portable = false;
    for (const Candidate& candidate : one->candidates({"portable", "reference"})) {
      SCOPED_TRACE(candidate.implementation);
      portable = portable || candidate.column == "portable";
      one->reset();
      candidate.launch(0);
      const Accuracy accuracy = one->check(0);
      EXPECT_EQ(accuracy.wrong, "");
      EXPECT_GT(accuracy.elements, 0);
    }
    EXPECT_TRUE(portable);
  }
}

TEST(PlantedFault, KernelThatDoesNothing) {
  Stream stream{Device{}};
  const auto timeline = timeline_of(stream);
  for (const auto& op : bench_operators()) {
    SCOPED_TRACE(op->name);
    const auto one = op->make(stream, *timeline, small(*op), dtype_on_host(*op), Cache::hot, 1 << 20);
    one->reset();
    EXPECT_NE(one->check(0).wrong, "");
  }
}

ops::SoftmaxArgs constant_softmax(Data& d, const Dims& s, DType t) {
  const TensorView x = d.input(t, {s[0], s[1]}, 1.0, 1.0);
  return {d.output(t, {s[0], s[1]}), x, 1.0f, false};
}
ops::SoftmaxArgs random_softmax(Data& d, const Dims& s, DType t) {
  const TensorView x = d.input(t, {s[0], s[1]});
  return {d.output(t, {s[0], s[1]}), x, 1.0f, false};
}
Definition<ops::SoftmaxArgs> softmax(ops::SoftmaxArgs (*make)(Data&, const Dims&, DType)) {
  return {"softmax",
          {"rows", "cols"},
          {DType::f32},
          make,
          [](const Dims&) { return 0.0; },
          ops::softmax_reference_run,
          [](const ops::SoftmaxArgs& a) { return a.y.dim(0); },
          [](ops::SoftmaxArgs& a, int64_t row) {
            cut_rows({&a.y, &a.x}, row);
          },
          [](const ops::SoftmaxArgs& a) { return std::vector{a.y}; }};
}

TEST(PlantedFault, ConstantInput) {
  Stream stream{Device{}};
  const auto timeline = timeline_of(stream);
  const auto definition = softmax(constant_softmax);
  TypedCase<ops::SoftmaxArgs> one(definition, stream, *timeline, {64, 64}, DType::f32, Cache::hot, 1 << 20);
  one.candidates({"portable"}).at(0).launch(0);
  try {
    one.check(0);
    FAIL() << "not noticed";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::constant_input);
  }
}

TEST(PlantedFault, KernelThatWritesHalf) {
  Stream stream{Device{}};
  const auto definition = softmax(random_softmax);
  // The data of a case cannot be reached from outside, so the half is written to a twin and taken over as outputs.
  Data whole(stream, 5), half(stream, 5);
  const ops::SoftmaxArgs args = definition.make(whole, {64, 64}, DType::f32);
  definition.make(half, {64, 64}, DType::f32);
  std::memset(args.y.data, 0, static_cast<size_t>(args.y.size()) * 2);  // half of the bytes
  half.take_outputs(whole);
  EXPECT_EQ(half.unwritten(), "output 1: 2048 of 4096 elements were never written");
  std::memset(args.y.data, 0, static_cast<size_t>(args.y.size()) * 4);
  half.take_outputs(whole);
  EXPECT_EQ(half.unwritten(), "");
}

TEST(BenchData, TensorsAndSetsDiffer) {
  Stream stream{Device{}};
  Data a(stream, 1), b(stream, 2);
  const TensorView x = a.input(DType::f32, {1000}), y = a.input(DType::f32, {1000}), z = b.input(DType::f32, {1000});
  EXPECT_NE(std::memcmp(x.data, y.data, 4000), 0);
  EXPECT_NE(std::memcmp(x.data, z.data, 4000), 0);
  EXPECT_EQ(a.read_bytes(), 8000);
}

TEST(BenchShapes, StepsOfModelsNameKnownOperators) {
  for (const ModelShape& model : model_shapes()) {
    for (const bool decode : {false, true}) {
      for (const WorkItem& item : model_step(model, decode, 2, 64)) {
        EXPECT_EQ(item.dims.size(), named(item.op).dims.size()) << item.op;
        EXPECT_GT(item.calls, 0);
      }
    }
  }
  std::vector<std::string> all;
  for (const auto& op : bench_operators()) all.push_back(op->name);
  const std::vector<WorkItem> streams = work_for("streams", all, true);
  EXPECT_GE(streams.size(), 20u);
  for (const WorkItem& item : streams) EXPECT_EQ(item.dims.size(), named(item.op).dims.size()) << item.op;
  EXPECT_THROW(work_for("model:none", {"gemm"}, true), Error);
  EXPECT_THROW(work_for("3,x", {"gemm"}, true), Error);
  EXPECT_EQ(work_for("3,4,5", {"gemm"}, true).at(0).dims, (Dims{3, 4, 5}));
}

TEST(BenchOps, OneRowEndToEnd) {
  OpsOptions options;
  options.patterns = {"soft*"};
  options.shapes = "33,1024";
  options.budget_us = 2000;
  const Report report = run_ops(options);
  ASSERT_FALSE(report.rows.empty());
  for (const Row& row : report.rows) {
    EXPECT_EQ(row.status, "ok") << row.note;
    EXPECT_GT(row.us.median, 0);
    EXPECT_GE(row.us.n, 5);
  }
  options.patterns = {"no_such_operator"};
  EXPECT_THROW(run_ops(options), Error);
}

}  // namespace
}  // namespace monotile::bench
