// cuDNN, found at run time, through its header-only front end.

#include "bench/cuda/cudnn.hpp"

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cmath>
#include <memory>
#include <unordered_map>

#include "bench/cuda/check.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace monotile::bench {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

struct Library {
  cudnnHandle_t handle = nullptr;
  std::string absent;

  static const Library& instance() {
    static const Library library;
    return library;
  }

 private:
  Library() {
    for (const char* name : {"libcudnn.so.9", "libcudnn.so"}) {
      if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    if (fe::cudnn_dlhandle == nullptr) {
      absent =
          "cuDNN: no libcudnn.so.9 on this machine (or not in LD_LIBRARY_PATH); attention and norms have no vendor "
          "column";
    } else if (fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS) {
      absent = "cuDNN: found, but could not be started";
    }
  }
};

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::f16    ? fe::DataType_t::HALF
         : dtype == DType::bf16 ? fe::DataType_t::BFLOAT16
                                : fe::DataType_t::FLOAT;
}

/// A graph, its tensors by number, and what it needs beside them.
struct Plan {
  fe::graph::Graph graph;
  Buffer workspace, lengths;
  int64_t next = 1;

  explicit Plan(DType dtype) {
    graph.set_io_data_type(type_of(dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }
  Tensor input(const char* name, std::vector<int64_t> dim, std::vector<int64_t> stride) {
    return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_uid(next++).set_dim(dim).set_stride(stride));
  }
  Tensor input(const char* name, std::vector<int64_t> dim, std::vector<int64_t> stride, fe::DataType_t type) {
    const Tensor tensor = input(name, std::move(dim), std::move(stride));
    tensor->set_data_type(type);
    return tensor;
  }
  void output(const Tensor& tensor, std::vector<int64_t> dim, std::vector<int64_t> stride) {
    tensor->set_output(true).set_uid(next++).set_dim(dim).set_stride(stride);
  }
  bool build(const Device& device) {
    const cudnnHandle_t handle = Library::instance().handle;
    if (graph.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad()) return false;
    int64_t bytes = 0;
    if (graph.get_workspace_size(bytes).is_bad()) return false;
    workspace = Buffer(device, static_cast<size_t>(bytes));
    return true;
  }
  /// `tensors`: addresses in the order in which inputs and outputs were named.
  void run(Stream& stream, std::initializer_list<void*> tensors) {
    const cudnnHandle_t handle = Library::instance().handle;
    fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream.native()));
    std::unordered_map<int64_t, void*> pack;
    int64_t uid = 1;
    for (void* tensor : tensors) pack[uid++] = tensor;
    if (auto run = graph.execute(handle, pack, workspace.data()); run.is_bad())
      throw Error(ErrorCode::device_error, "cuDNN: " + run.get_message());
  }
};

template <class Args, class Launch>
Baselines<Args> made(const std::shared_ptr<Plan>& plan, const Device& device, const char* name, Launch launch) {
  if (!plan->build(device)) return {};
  return {{"vendor", name, std::move(launch)}};
}

bool usable(const DeviceInfo& device) {
  return device.device.kind == DeviceKind::cuda && Library::instance().absent.empty();
}

}  // namespace

std::string cudnn_absent() { return Library::instance().absent; }

Baselines<ops::AttentionArgs> cudnn_baseline(const DeviceInfo& info, const ops::AttentionArgs& a) {
  // What the benchmark's own calls are: sequences on pages, or dense ones of one length, one behind the other; 16 bits.
  if (!usable(info) || a.q.dtype == DType::f32 || a.softcap != 0 || a.window != 0 || a.alibi_slopes.defined() ||
      a.prefix_length.defined() || a.key_ranges.defined() || a.key_cache.dtype != a.q.dtype)
    return {};
  const int64_t batch = a.kv_length.dim(0), queries = a.max_query, heads = a.q.dim(1), dim = a.q.dim(2);
  if (a.q.dim(0) != batch * queries) return {};
  const Device device = a.q.device;
  const auto plan = std::make_shared<Plan>(a.q.dtype);
  const bool paged = a.block_table.defined();
  const std::vector<int64_t> q_dim = {batch, heads, queries, dim},
                             q_stride = {queries * heads * dim, dim, heads * dim, 1};
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(false)
                     .set_attn_scale(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<float>(dim)));
  const Tensor q = plan->input("q", q_dim, q_stride);
  const auto attend = [&](const Tensor& k, const Tensor& v) {
    const auto [out, statistics] = plan->graph.sdpa(q, k, v, options);
    plan->output(out, q_dim, q_stride);
  };
  if (!paged) {
    const int64_t kv_heads = a.key_cache.dim(1), keys = a.key_cache.dim(0) / batch;
    if (a.key_cache.dim(0) != batch * keys || a.max_kv_length != keys) return {};
    const std::vector<int64_t> kv_dim = {batch, kv_heads, keys, dim},
                               kv_stride = {keys * kv_heads * dim, dim, kv_heads * dim, 1};
    const Tensor k = plan->input("k", kv_dim, kv_stride), v = plan->input("v", kv_dim, kv_stride);
    if (a.causal && queries == keys) options.set_causal_mask(true);
    if (a.causal && queries > 1 && queries < keys) options.set_causal_mask_bottom_right(true);
    attend(k, v);
    return made<ops::AttentionArgs>(plan, device, "cuDNN, dense",
                                    [plan](Stream& stream, const ops::AttentionArgs& call) {
                                      plan->run(stream, {call.q.data, call.key_cache.data, call.value_cache.data, call.out.data});
                                    });
  }
  const int64_t pages = a.key_cache.dim(0), kv_heads = a.key_cache.dim(1), page = a.key_cache.dim(2),
                row = a.block_table.dim(1);
  const std::vector<int64_t> kv_dim = {pages, kv_heads, page, dim},
                             kv_stride = {a.key_cache.step(0), a.key_cache.step(1), a.key_cache.step(2), 1};
  const Tensor k = plan->input("k", kv_dim, kv_stride), v = plan->input("v", kv_dim, kv_stride);
  const std::vector<int64_t> table_dim = {batch, 1, row, 1}, table_stride = {row, row, 1, 1};
  const Tensor k_table = plan->input("k_table", table_dim, table_stride, fe::DataType_t::INT32);
  const Tensor v_table = plan->input("v_table", table_dim, table_stride, fe::DataType_t::INT32);
  const Tensor q_length = plan->input("q_length", {batch, 1, 1, 1}, {1, 1, 1, 1}, fe::DataType_t::INT32);
  const Tensor kv_length = plan->input("kv_length", {batch, 1, 1, 1}, {1, 1, 1, 1}, fe::DataType_t::INT32);
  options.set_padding_mask(true)
      .set_seq_len_q(q_length)
      .set_seq_len_kv(kv_length)
      .set_paged_attention_k_table(k_table)
      .set_paged_attention_v_table(v_table)
      .set_paged_attention_max_seq_len_kv(static_cast<int>(row * page));
  if (a.causal && queries > 1) options.set_causal_mask_bottom_right(true);
  attend(k, v);
  const std::vector<int32_t> lengths(static_cast<size_t>(batch), static_cast<int32_t>(queries));
  plan->lengths = Buffer(device, lengths.size() * sizeof(int32_t));
  check_cuda(cudaMemcpy(plan->lengths.data(), lengths.data(), lengths.size() * sizeof(int32_t), cudaMemcpyHostToDevice),
             "cudaMemcpy");
  return made<ops::AttentionArgs>(plan, device, "cuDNN, paged", [plan](Stream& stream, const ops::AttentionArgs& call) {
    plan->run(stream, {call.q.data, call.key_cache.data, call.value_cache.data, call.block_table.data,
                       call.block_table.data, plan->lengths.data(), call.kv_length.data, call.out.data});
  });
}

Baselines<ops::RmsNormArgs> cudnn_baseline(const DeviceInfo& info, const ops::RmsNormArgs& a) {
  if (!usable(info) || a.residual.defined() || a.beta.defined() || a.x.rank != 2) return {};
  const auto plan = std::make_shared<Plan>(a.x.dtype);
  const int64_t rows = a.x.dim(0), cols = a.x.dim(1);
  const std::vector<int64_t> dim = {rows, cols, 1, 1}, stride = {cols, 1, cols, cols};
  const Tensor x = plan->input("x", dim, stride), gamma = plan->input("gamma", {1, cols, 1, 1}, {cols, 1, cols, cols});
  Tensor eps = plan->graph.tensor(a.eps);
  const auto [y, unused] = plan->graph.rmsnorm(
      x, gamma, fe::graph::Rmsnorm_attributes().set_forward_phase(fe::NormFwdPhase_t::INFERENCE).set_epsilon(eps));
  plan->output(y, dim, stride);
  return made<ops::RmsNormArgs>(plan, a.x.device, "cuDNN", [plan](Stream& stream, const ops::RmsNormArgs& call) {
    plan->run(stream, {call.x.data, call.gamma.data, call.y.data});
  });
}

Baselines<ops::LayerNormArgs> cudnn_baseline(const DeviceInfo& info, const ops::LayerNormArgs& a) {
  if (!usable(info) || a.x.rank != 2 || !a.gamma.defined() || !a.beta.defined()) return {};
  const auto plan = std::make_shared<Plan>(a.x.dtype);
  const int64_t rows = a.x.dim(0), cols = a.x.dim(1);
  const std::vector<int64_t> dim = {rows, cols, 1, 1}, stride = {cols, 1, cols, cols}, one = {1, cols, 1, 1};
  const Tensor x = plan->input("x", dim, stride), gamma = plan->input("gamma", one, stride),
               beta = plan->input("beta", one, stride);
  Tensor eps = plan->graph.tensor(a.eps);
  const auto [y, mean, variance] = plan->graph.layernorm(
      x, gamma, beta,
      fe::graph::Layernorm_attributes().set_forward_phase(fe::NormFwdPhase_t::INFERENCE).set_epsilon(eps));
  plan->output(y, dim, stride);
  return made<ops::LayerNormArgs>(plan, a.x.device, "cuDNN", [plan](Stream& stream, const ops::LayerNormArgs& call) {
    plan->run(stream, {call.x.data, call.gamma.data, call.beta.data, call.y.data});
  });
}

}  // namespace monotile::bench
