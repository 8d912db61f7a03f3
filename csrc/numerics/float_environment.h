// The floating-point environment that all arithmetic here assumes: round to nearest even, subnormals kept, no traps.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace densecore {

// Sets that environment for the calling thread while it lives. Whoever set another one (a library built with -ffast-math,
// torch.set_flush_denormal, fesetround) finds it again afterwards. Costs a read of the control register where nothing is to do.
class FloatEnvironment {
 public:
  FloatEnvironment() : found_(read()) {
    if (foreign()) write(kDefault);
  }
  ~FloatEnvironment() {
    if (foreign()) write(found_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

  // Whether the thread had another environment.
  bool foreign() const { return (found_ & kControl) != kDefault; }
  // Sets it for good.
  static void reset() { write(kDefault); }

 private:
#if defined(__x86_64__)  // MXCSR; the low six bits are sticky flags
  using Word = uint32_t;
  static constexpr Word kControl = 0xffc0, kDefault = 0x1f80;
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)  // FPCR
  using Word = uint64_t;
  static constexpr Word kControl = ~Word{0}, kDefault = 0;
  static Word read() {
    Word word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
#error "which register holds the floating-point control bits here?"
#endif

  Word found_;
};

}  // namespace densecore
