#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <c10/core/GeneratorImpl.h>

#include "runtime/allocator.h"

namespace densecore {
namespace {

// Every call is delegated, so both names of one generator see one stream.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(at::Generator host)
      : c10::GeneratorImpl(kDevice, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), host_(std::move(host)) {}

  const at::Generator& host() const { return host_; }

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host_.set_offset(offset); }
  uint64_t get_offset() const override { return host_.get_offset(); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host_.unsafeGetGeneratorImpl()->get_state(); }

 private:
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(host_.clone()); }

  at::Generator host_;
};

}  // namespace

const at::Generator& default_generator() {
  static const at::Generator generator = at::make_generator<DeviceGenerator>(at::detail::getDefaultCPUGenerator());
  return generator;
}

at::Generator new_generator() { return at::make_generator<DeviceGenerator>(at::detail::createCPUGenerator()); }

at::Generator host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kDeviceType, "Expected a 'densecore' device type for generator but found '",
              generator.device().type(), "'");
  return static_cast<const DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace densecore
