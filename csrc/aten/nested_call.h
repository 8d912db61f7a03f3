// Calls that a host kernel or the oracle makes on its way: part of the op that was asked for, which has been decided upon.
#pragma once

namespace densecore::host {

// While one lives, ops that this thread dispatches ask for no tier of their own.
class NestedCall {
 public:
  NestedCall() { ++depth_; }
  ~NestedCall() { --depth_; }
  NestedCall(const NestedCall&) = delete;
  NestedCall& operator=(const NestedCall&) = delete;

  static bool active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace densecore::host
