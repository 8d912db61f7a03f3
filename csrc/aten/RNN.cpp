// Recurrent layers as torch composes them for CPU tensors.
//
// For this device torch would take fused cells and multiply the input step by step; for the CPU it multiplies the whole input
// by the input weights first and uses single gates, and a product of other shapes has other bits. The composition
// of ops follows ATen/native/RNN.cpp's CPU branch without oneDNN, which the macOS arm64 wheel does not contain.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gru_cell_ops.h>
#include <ATen/ops/gru_ops.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_cell_ops.h>
#include <ATen/ops/lstm_ops.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rnn_relu_ops.h>
#include <ATen/ops/rnn_tanh_ops.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>

#include <algorithm>

#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh;
  Tensor w_hr;  // of LSTMs with projections
};

// h, and c for an LSTM.
using State = Tensors;
// One step. `input` has been multiplied by w_ih already.
using Cell = State(const Tensor& input, const State& state, const Weights& weights);

State tanh_cell(const Tensor& input, const State& state, const Weights& w) {
  return {at::tanh(at::linear(state[0], w.w_hh, w.b_hh).add_(input))};
}

State relu_cell(const Tensor& input, const State& state, const Weights& w) {
  return {at::relu(at::linear(state[0], w.w_hh, w.b_hh).add_(input))};
}

State lstm_step(const Tensor& sum, const State& state, const Weights& w) {
  const auto gates = sum.unsafe_chunk(4, 1);
  const Tensor in = gates[0].sigmoid_();
  const Tensor forget = gates[1].sigmoid_();
  const Tensor cell = gates[2].tanh_();
  const Tensor out = gates[3].sigmoid_();
  const Tensor c = forget.mul(state[1]).add_(in.mul(cell));
  const Tensor h = out.mul(c.tanh());
  return {w.w_hr.defined() ? at::matmul(h, w.w_hr.t()) : h, c};
}

State lstm_gates(const Tensor& input, const State& state, const Weights& w) {
  return lstm_step(at::linear(state[0], w.w_hh, w.b_hh).add_(input), state, w);
}

State gru_gates(const Tensor& input, const State& state, const Weights& w) {
  const auto from_input = input.unsafe_chunk(3, 1);
  const auto from_state = at::linear(state[0], w.w_hh, w.b_hh).unsafe_chunk(3, 1);
  const Tensor reset = from_state[0].add_(from_input[0]).sigmoid_();
  const Tensor update = from_state[1].add_(from_input[1]).sigmoid_();
  const Tensor candidate = from_input[2].add(from_state[2].mul_(reset)).tanh_();
  return {state[0].sub(candidate).mul_(update).add_(candidate)};
}

// A sequence: (steps, batch, features), or a packed one: rows of all steps with the batch size of each step on the host.
struct Sequence {
  Tensor data;
  at::ArrayRef<int64_t> batch_sizes;
  bool packed() const { return !batch_sizes.empty(); }
};

State slice(const State& state, int64_t begin, int64_t end) {
  State part;
  for (const auto& tensor : state) part.push_back(tensor.narrow(0, begin, end - begin));
  return part;
}

State concat(const std::vector<State>& parts) {
  State whole;
  for (size_t i = 0; i < parts[0].size(); ++i) {
    Tensors tensors;
    for (const auto& part : parts) tensors.push_back(part[i]);
    whole.push_back(at::cat(tensors, 0));
  }
  return whole;
}

struct Direction {
  Tensor outputs;
  State state;
};

Direction run_full(Cell* cell, const Tensor& input, State state, const Weights& weights, bool reverse) {
  Tensors steps = at::linear(input, weights.w_ih, weights.b_ih).unbind(0);
  TORCH_CHECK(!steps.empty(), "Expected sequence length to be larger than 0 in RNN");
  if (reverse) std::reverse(steps.begin(), steps.end());
  Tensors outputs;
  for (const auto& step : steps) {
    state = cell(step, state, weights);
    outputs.push_back(state[0]);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return {at::stack(outputs, 0), state};
}

// Steps hold ever fewer sequences: those that have ended keep their state.
Direction run_packed(Cell* cell, const Sequence& input, State state, const Weights& weights) {
  const Tensor rows = at::linear(input.data, weights.w_ih, weights.b_ih);
  Tensors outputs;
  std::vector<State> ended;
  int64_t last = input.batch_sizes[0];
  int64_t offset = 0;
  for (const int64_t count : input.batch_sizes) {
    const Tensor step = rows.narrow(0, offset, count);
    offset += count;
    if (count < last) {
      ended.push_back(slice(state, count, last));
      state = slice(state, 0, count);
    }
    last = count;
    state = cell(step, state, weights);
    outputs.push_back(state[0]);
  }
  ended.push_back(state);
  std::reverse(ended.begin(), ended.end());
  return {at::cat(outputs, 0), concat(ended)};
}

// From the last step back: sequences join as the steps get wider.
Direction run_packed_reversed(Cell* cell, const Sequence& input, const State& initial, const Weights& weights) {
  const Tensor rows = at::linear(input.data, weights.w_ih, weights.b_ih);
  Tensors outputs;
  int64_t last = input.batch_sizes.back();
  int64_t offset = input.data.size(0);
  State state = slice(initial, 0, last);
  for (auto it = input.batch_sizes.rbegin(); it != input.batch_sizes.rend(); ++it) {
    const int64_t count = *it;
    if (count > last) state = concat({state, slice(initial, last, count)});
    const Tensor step = rows.narrow(0, offset - count, count);
    offset -= count;
    last = count;
    state = cell(step, state, weights);
    outputs.push_back(state[0]);
  }
  std::reverse(outputs.begin(), outputs.end());
  return {at::cat(outputs, 0), state};
}

Direction run_direction(Cell* cell, const Sequence& input, const State& state, const Weights& weights, bool reverse) {
  if (!input.packed()) return run_full(cell, input.data, state, weights, reverse);
  return reverse ? run_packed_reversed(cell, input, state, weights) : run_packed(cell, input, state, weights);
}

std::vector<Weights> gather_weights(at::TensorList params, bool biases, bool projections) {
  const size_t per_layer = (biases ? 4 : 2) + (projections ? 1 : 0);
  TORCH_CHECK(params.size() % per_layer == 0, "got an incorrect number of RNN parameters");
  std::vector<Weights> all;
  for (size_t i = 0; i < params.size(); i += per_layer) {
    Weights w{params[i], params[i + 1], {}, {}, {}};
    if (biases) w.b_ih = params[i + 2], w.b_hh = params[i + 3];
    if (projections) w.w_hr = params[i + per_layer - 1];
    all.push_back(std::move(w));
  }
  return all;
}

struct Options {
  int64_t layers;
  double dropout;
  bool train;
  bool bidirectional;
};

// All layers; `initial` and the returned states are ordered by layer, then direction.
std::pair<Tensor, std::vector<State>> run_layers(Cell* cell, Sequence input, const std::vector<State>& initial,
                                                 const std::vector<Weights>& weights, const Options& options) {
  const size_t directions = options.bidirectional ? 2 : 1;
  const size_t expected = options.layers * directions;
  TORCH_CHECK(initial.size() == expected, "Expected more hidden states in stacked_rnn");
  TORCH_CHECK(weights.size() == expected, "Expected more weights in stacked_rnn");
  std::vector<State> final;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    Tensors outputs;
    for (size_t d = 0; d < directions; ++d) {
      const size_t i = layer * directions + d;
      auto result = run_direction(cell, input, initial[i], weights[i], d == 1);
      outputs.push_back(std::move(result.outputs));
      final.push_back(std::move(result.state));
    }
    input.data = directions == 1 ? outputs[0] : at::cat(outputs, input.packed() ? -1 : outputs[0].dim() - 1);
    if (options.dropout != 0 && options.train && layer < options.layers - 1) {
      input.data = at::dropout(input.data, options.dropout, /*train=*/true);
    }
  }
  return {input.data, std::move(final)};
}

std::vector<State> split_states(at::TensorList hx) {
  std::vector<State> states(hx[0].size(0));
  for (const auto& tensor : hx) {
    const auto layers = tensor.unbind(0);
    for (size_t i = 0; i < states.size(); ++i) states[i].push_back(layers[i]);
  }
  return states;
}

Tensor stack_states(const std::vector<State>& states, size_t which) {
  Tensors tensors;
  for (const auto& state : states) tensors.push_back(state[which]);
  return at::stack(tensors, 0);
}

void check_attributes(const Tensor& input, at::TensorList params, at::TensorList hiddens) {
  const auto check = [&](const Tensor& tensor, const char* name) {
    TORCH_CHECK(tensor.device() == input.device(), "Input and ", name, " tensors are not at the same device, found input tensor at ",
                input.device(), " and ", name, " tensor at ", tensor.device());
    TORCH_CHECK(tensor.scalar_type() == input.scalar_type(), "Input and ", name, " tensors are not the same dtype, found input tensor with ",
                input.scalar_type(), " and ", name, " tensor with ", tensor.scalar_type());
  };
  for (const auto& hidden : hiddens) check(hidden, "hidden");
  for (const auto& param : params) check(param, "parameter");
}

at::ArrayRef<int64_t> sizes_of(const Tensor& batch_sizes) {
  TORCH_CHECK(batch_sizes.is_cpu() && batch_sizes.scalar_type() == at::kLong && batch_sizes.numel() > 0,
              "batch_sizes must be a CPU int64 tensor that is not empty");
  return {batch_sizes.const_data_ptr<int64_t>(), static_cast<size_t>(batch_sizes.numel())};
}

template <Cell* cell>
std::tuple<Tensor, Tensor> rnn_input(const Tensor& input, const Tensor& hx, at::TensorList params, bool has_biases, int64_t layers,
                                     double dropout, bool train, bool bidirectional, bool batch_first) {
  check_attributes(input, params, {hx});
  const Tensor steps = batch_first ? input.transpose(0, 1) : input;
  auto [output, states] = run_layers(cell, {steps, {}}, split_states({hx}), gather_weights(params, has_biases, false),
                                     {layers, dropout, train, bidirectional});
  Tensor final = stack_states(states, 0);
  if (batch_first) output.transpose_(0, 1);
  return {output, final};
}

template <Cell* cell>
std::tuple<Tensor, Tensor> rnn_packed(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, at::TensorList params,
                                      bool has_biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  auto [output, states] = run_layers(cell, {data, sizes_of(batch_sizes)}, split_states({hx}),
                                     gather_weights(params, has_biases, false), {layers, dropout, train, bidirectional});
  return {output, stack_states(states, 0)};
}

bool valid_lstm_states(at::TensorList hx, int64_t layers, bool bidirectional) {
  const int64_t expected = layers * (bidirectional ? 2 : 1);
  return hx.size() == 2 && hx[0].dim() == 3 && hx[1].dim() == 3 && hx[0].size(0) == expected && hx[1].size(0) == expected;
}

std::tuple<Tensor, Tensor, Tensor> lstm_input(const Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases,
                                              int64_t layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  if (!valid_lstm_states(hx, layers, bidirectional)) {
    host::error<at::_ops::lstm_input>(input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first);
  }
  check_attributes(input, params, hx);
  const bool projections = hx[0].size(2) != hx[1].size(2);
  const Tensor steps = batch_first ? input.transpose(0, 1) : input;
  auto [output, states] = run_layers(&lstm_gates, {steps, {}}, split_states(hx), gather_weights(params, has_biases, projections),
                                     {layers, dropout, train, bidirectional});
  Tensor h = stack_states(states, 0);
  Tensor c = stack_states(states, 1);
  return {batch_first ? output.transpose(0, 1) : output, h, c};
}

std::tuple<Tensor, Tensor, Tensor> lstm_packed(const Tensor& data, const Tensor& batch_sizes, at::TensorList hx,
                                               at::TensorList params, bool has_biases, int64_t layers, double dropout, bool train,
                                               bool bidirectional) {
  if (!valid_lstm_states(hx, layers, bidirectional)) {
    host::error<at::_ops::lstm_data>(data, batch_sizes, hx, params, has_biases, layers, dropout, train, bidirectional);
  }
  const bool projections = hx[0].size(2) != hx[1].size(2);
  auto [output, states] = run_layers(&lstm_gates, {data, sizes_of(batch_sizes)}, split_states(hx),
                                     gather_weights(params, has_biases, projections), {layers, dropout, train, bidirectional});
  Tensor h = stack_states(states, 0);
  return {output, h, stack_states(states, 1)};
}

bool valid_cell(const Tensor& input, at::TensorList hx, const Tensor& w_ih, const Tensor& w_hh, int64_t gates) {
  const int64_t width = w_hh.size(1);
  return input.size(1) == w_ih.size(1) && w_ih.size(0) == gates * width && w_hh.size(0) == gates * width &&
         std::all_of(hx.begin(), hx.end(), [&](const Tensor& h) { return h.size(0) == input.size(0) && h.size(1) == width; });
}

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, at::TensorList hx, const Tensor& w_ih, const Tensor& w_hh,
                                     const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  if (hx.size() != 2 || !valid_cell(input, hx, w_ih, w_hh, 4)) {
    host::error<at::_ops::lstm_cell>(input, hx, w_ih, w_hh, b_ih, b_hh);
  }
  const Weights w{w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), {}};
  // a single cell multiplies the state first, then the input
  const Tensor from_state = at::linear(hx[0], w.w_hh, w.b_hh);
  const State next = lstm_step(from_state.add_(at::linear(input, w.w_ih, w.b_ih)), {hx[0], hx[1]}, w);
  return {next[0], next[1]};
}

Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, const std::optional<Tensor>& b_ih,
                const std::optional<Tensor>& b_hh) {
  if (!valid_cell(input, {hx}, w_ih, w_hh, 3)) host::error<at::_ops::gru_cell>(input, hx, w_ih, w_hh, b_ih, b_hh);
  const Weights w{w_ih, w_hh, b_ih.value_or(Tensor()), b_hh.value_or(Tensor()), {}};
  return gru_gates(at::linear(input, w.w_ih, w.b_ih), {hx}, w)[0];
}

DENSECORE_COMPOSITE("aten::rnn_tanh.input", rnn_input<&tanh_cell>);
DENSECORE_COMPOSITE("aten::rnn_tanh.data", rnn_packed<&tanh_cell>);
DENSECORE_COMPOSITE("aten::rnn_relu.input", rnn_input<&relu_cell>);
DENSECORE_COMPOSITE("aten::rnn_relu.data", rnn_packed<&relu_cell>);
DENSECORE_COMPOSITE("aten::gru.input", rnn_input<&gru_gates>);
DENSECORE_COMPOSITE("aten::gru.data", rnn_packed<&gru_gates>);
DENSECORE_COMPOSITE("aten::lstm.input", lstm_input);
DENSECORE_COMPOSITE("aten::lstm.data", lstm_packed);
DENSECORE_COMPOSITE("aten::lstm_cell", lstm_cell);
DENSECORE_COMPOSITE("aten::gru_cell", gru_cell);

}  // namespace
}  // namespace densecore
