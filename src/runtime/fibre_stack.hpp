#pragma once
// A stack of its own for one of several courses of events on a thread, and the change to it and back.

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace monotile::emulated {

/// The side that changes to fibres.
struct FibreCaller {
  ucontext_t context{};
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  size_t stack_bytes = 0;
};

/// Stacks are kept per thread: making one costs more than running a small program on it.
template <size_t Bytes>
std::unique_ptr<unsigned char[]> take_stack(std::vector<std::unique_ptr<unsigned char[]>>& kept) {
  if (kept.empty()) return std::unique_ptr<unsigned char[]>(new unsigned char[Bytes]);
  auto stack = std::move(kept.back());
  kept.pop_back();
  return stack;
}

/// AddressSanitizer is told of every change of stack.
class FibreStack {
 public:
  /// Runs body(argument) when it is first entered, which must end in leave(true).
  void prepare(std::unique_ptr<unsigned char[]> stack, size_t bytes, FibreCaller& caller, void (*body)(void*),
               void* argument) {
    stack_ = std::move(stack), bytes_ = bytes, caller_ = &caller, body_ = body, argument_ = argument;
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(start), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
  }
  std::unique_ptr<unsigned char[]> release() { return std::move(stack_); }

  /// From the caller: until the fibre leaves.
  void enter() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&caller_->fake_stack, stack_.get(), bytes_);
#endif
    swapcontext(&caller_->context, &context_);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(caller_->fake_stack, nullptr, nullptr);
#endif
  }
  /// From the fibre: until it is entered again, or for good.
  void leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, caller_->stack, caller_->stack_bytes);
#endif
    swapcontext(&context_, &caller_->context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &caller_->stack, &caller_->stack_bytes);
#endif
  }

 private:
  static void start(unsigned high, unsigned low) {
    auto* self = reinterpret_cast<FibreStack*>((static_cast<uintptr_t>(high) << 32) | low);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &self->caller_->stack, &self->caller_->stack_bytes);
#endif
    self->body_(self->argument_);
  }

  ucontext_t context_{};
  std::unique_ptr<unsigned char[]> stack_;
  size_t bytes_ = 0;
  FibreCaller* caller_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace monotile::emulated
