// What nearly every file of csrc/aten includes, parsed once by the build (setup.py). A file still includes what it uses.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/infer_schema.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"
