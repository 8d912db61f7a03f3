#pragma once

namespace densecore {

// Makes the numerics run their chunks on torch's intra-op threads; called once, when the module loads.
void use_torch_threads();

// Whether this process is the child of a fork that was made after the module was loaded.
bool in_forked_child();

// One OpenMP thread for parallel regions of this thread while it lives.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int threads_;
};

// The intra-op threads keep the floating-point environment of the moment when they were started. Gives those that the host's kernels
// would use the default one; does nothing if it did before.
void reset_worker_environments();
// Makes the next call of the above do it again.
void distrust_worker_environments();

}  // namespace densecore
