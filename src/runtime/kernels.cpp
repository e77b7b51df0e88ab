#include "runtime/kernels.hpp"

#include <atomic>
#include <mutex>

#include "runtime/builtin_kernels.hpp"

namespace monotile {
namespace {

/// Open addressing over a power-of-two table of entry numbers; written once, then only read.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  const Registry& complete() {
    std::call_once(once_, [this] {
      entries_.clear();
      slots_.assign(kFirstSlots, 0);
      building_ = true;
      register_builtin_kernels();
      building_ = false;
    });
    return *this;
  }

  void add(const KernelEntry& entry) {
    if (!building_) {
      throw Error(ErrorCode::internal,
                  "register_kernel: " + describe(entry) + ": only the list of built-in kernels may register");
    }
    if (entry.name.empty() || entry.function == nullptr || entry.target >= Target::count) {
      throw Error(ErrorCode::internal, "register_kernel: " + describe(entry) + ": name, target or function is missing");
    }
    if (find(entry.name, entry.target, entry.variant) != nullptr) {
      throw Error(ErrorCode::internal, "register_kernel: " + describe(entry) + " is registered twice");
    }
    entries_.push_back(entry);
    if (2 * entries_.size() > slots_.size()) {
      slots_.assign(2 * slots_.size(), 0);
      for (size_t i = 0; i < entries_.size(); ++i) insert(i);
    } else {
      insert(entries_.size() - 1);
    }
  }

  void (*find(std::string_view name, Target target, uint32_t variant) const)() {
    for (size_t slot = hash(name, target, variant);; ++slot) {
      const uint32_t number = slots_[slot & (slots_.size() - 1)];
      if (number == 0) return nullptr;
      const KernelEntry& entry = entries_[number - 1];
      if (entry.variant == variant && entry.target == target && entry.name == name) return entry.function;
    }
  }

  const std::vector<KernelEntry>& entries() const { return entries_; }

 private:
  static constexpr size_t kFirstSlots = 1024;

  static std::string describe(const KernelEntry& entry) {
    return std::string(entry.name) + " for " + to_string(entry.target) + ", variant " + std::to_string(entry.variant);
  }
  static size_t hash(std::string_view name, Target target, uint32_t variant) {
    uint64_t h = 0xcbf29ce484222325u ^ (static_cast<uint64_t>(variant) << 8) ^ static_cast<uint64_t>(target);
    for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    return static_cast<size_t>(h ^ (h >> 32));
  }
  void insert(size_t entry) {
    const KernelEntry& e = entries_[entry];
    size_t slot = hash(e.name, e.target, e.variant);
    while (slots_[slot & (slots_.size() - 1)] != 0) ++slot;
    slots_[slot & (slots_.size() - 1)] = static_cast<uint32_t>(entry + 1);
  }

  std::once_flag once_;
  std::atomic<bool> building_{false};
  std::vector<KernelEntry> entries_;
  std::vector<uint32_t> slots_;  // entry number + 1; 0 is free
};

}  // namespace

void register_kernel(const char* name, Target target, uint32_t variant, void (*function)()) {
  Registry::instance().add({name, target, variant, function});
}

void (*find_kernel(std::string_view name, Target target, uint32_t variant))() {
  const Registry& registry = Registry::instance().complete();
  for (;;) {
    if (auto* const found = registry.find(name, target, variant); found != nullptr) return found;
    if (target == Target::cpu_amx) {
      target = Target::cpu_avx512;
    } else if (target == Target::cpu_avx512) {
      target = Target::cpu_avx2;
    } else if (target == Target::emulated_sm90) {
      target = Target::emulated32;
    } else {
      return nullptr;
    }
  }
}

const std::vector<KernelEntry>& built_kernels() { return Registry::instance().complete().entries(); }

}  // namespace monotile
