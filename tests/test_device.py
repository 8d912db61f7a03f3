"""The device itself: memory, views, devices, random streams, serialization, and what torch's helpers ask of a device."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import torch_densecore

D = "densecore"


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """0, 1, 2, ... on the device."""
    size = 1
    for length in shape:
        size *= length
    return torch.arange(size, dtype=dtype, device=D).reshape(shape)


# import and memory


@pytest.mark.parametrize("order", ["import torch, torch_densecore", "import torch_densecore, torch"])
def test_both_import_orders(python: Any, order: str) -> None:
    text = f"{order}; print(torch.ones(3, device='densecore').device)"
    assert python("-c", text, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.strip() == "densecore:0"


def test_importing_twice_registers_once() -> None:
    from torch_densecore import _device

    _device.register()
    assert torch._C._get_privateuse1_backend_name() == D


def test_memory_is_aligned_and_counted() -> None:
    before = torch.densecore.memory_allocated()
    x = torch.empty(1000, device=D)
    assert x.data_ptr() % 64 == 0
    assert torch.densecore.memory_allocated() - before == 4000
    y = torch.cat([x, x])  # served by the host: its buffer is counted too
    assert torch.densecore.memory_allocated() - before == 12000
    torch.densecore.reset_peak_memory_stats()
    del x, y
    assert torch.densecore.memory_allocated() == before
    assert torch.densecore.max_memory_allocated() - before == 12000


def test_views_share_and_keep_the_memory() -> None:
    before = torch.densecore.memory_allocated()
    base = numbers(4, 6)
    parts = [base[1], base.t(), base.split(2, 1)[1], base.unfold(1, 2, 2), base.diagonal(), base.view(24), base.expand(2, 4, 6)]
    pointer = base.untyped_storage().data_ptr()
    assert all(part.untyped_storage().data_ptr() == pointer and part.device.type == D for part in parts)
    base.add_(1)
    assert parts[1][0, 0] == 1
    del base
    assert parts[0][0] == 7 and parts[4].tolist() == [1, 8, 15, 22]
    del parts
    assert torch.densecore.memory_allocated() == before


def test_outputs_are_resized_and_aliases_kept() -> None:
    x, out = numbers(2, 3), torch.empty(0, device=D)
    torch.add(x, x, out=out)
    assert out.tolist() == [[0, 2, 4], [6, 8, 10]]
    values, places = torch.empty(0, device=D), torch.empty(0, dtype=torch.long, device=D)
    assert torch.sort(x, descending=True, out=(values, places))[0] is values and values.shape == (2, 3)
    x.resize_(4, 2)
    assert x.shape == (4, 2) and x.flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    y = x.clone()
    y.untyped_storage().resize_(4)
    assert y.untyped_storage().nbytes() == 4
    assert x.mul_(x) is x
    with pytest.raises(RuntimeError, match="unsupported operation|single memory location"):
        x[1:].add_(x[:-1])  # partial overlap is found through the aliases


def test_many_allocations_leak_nothing() -> None:
    import resource

    def work() -> None:
        for _ in range(25_000):
            x = torch.empty(16, device=D)
            (x.view(4, 4).t() < 0).any()

    work()
    before, peak = torch.densecore.memory_allocated(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        work()
    assert torch.densecore.memory_allocated() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 4096  # KiB on Linux: 75,000 leaked tensors are more


def test_errors_leave_nothing_behind() -> None:
    before = torch.densecore.memory_allocated()
    x = numbers(2, 3)
    for _ in range(100):
        with pytest.raises(RuntimeError):
            x @ x
    del x
    assert torch.densecore.memory_allocated() == before


def test_out_of_memory() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="densecore out of memory. Tried to allocate"):
        torch.empty(1 << 50, device=D)
    huge = torch.ones(1, device=D).expand(1 << 45)
    with pytest.raises(torch.OutOfMemoryError, match="densecore out of memory"):
        torch.roll(huge, 1)
    assert numbers(3).tolist() == [0, 1, 2]


# devices


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.ones(3, device="densecore:1"),
        lambda: torch.ones(3).to("densecore:1"),
        lambda: torch.ones(3, device=D).to("densecore:1"),
        lambda: torch.zeros_like(torch.ones(3, device=D), device="densecore:1"),
        lambda: torch.arange(3, device="densecore:2"),
        lambda: torch.randperm(3, device="densecore:2"),
        lambda: torch.Generator("densecore:1"),
        lambda: torch.densecore.set_device(1),
        lambda: torch.densecore.device("densecore:1"),
        lambda: torch.load(saved(torch.ones(3)), map_location="densecore:1"),
    ],
)
def test_wrong_index_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        use()


CPU = torch.ones(2, 3)
MIXED: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: x + CPU,
    "add reversed": lambda x: CPU + x,
    "mm": lambda x: x @ CPU.t(),
    "linear": lambda x: nn.functional.linear(x, CPU),
    "cat": lambda x: torch.cat([x, CPU]),
    "where": lambda x: torch.where(x > 0, CPU, x),
    "out": lambda x: torch.add(x, x, out=torch.empty(2, 3)),
    "in place": lambda x: CPU.clone().add_(x),
    "embedding": lambda x: nn.functional.embedding(torch.tensor([0]), x),
    "layer norm": lambda x: nn.functional.layer_norm(x, (3,), torch.ones(3)),
    "0-dim densecore": lambda x: CPU + x[0, 0],
    "allclose": lambda x: torch.allclose(x, CPU),
    "densecore index": lambda x: CPU[torch.tensor([0], device=D)],
    "foreach": lambda x: torch._foreach_add([x], [CPU]),
    "dropout mask": lambda x: torch.native_dropout(x, 0.5, True)[0] * CPU,
}


@pytest.mark.parametrize("name", MIXED)
def test_mixing_devices_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="[Ee]xpected all tensors to be on the same device|indices should be either on"):
        MIXED[name](numbers(2, 3))


def test_what_torch_lets_mix_mixes() -> None:
    x = numbers(2, 3)
    assert (x + torch.tensor(2.0)).tolist() == [[2, 3, 4], [5, 6, 7]]
    assert (torch.tensor(2.0) * x).device.type == D
    assert torch.where(x > 2, torch.tensor(0.0), x).device.type == D
    assert x[torch.tensor([1])].tolist() == [[3, 4, 5]]
    x.index_put_((torch.tensor([0]),), torch.tensor(7.0))
    x[1] = torch.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [[7, 7, 7], [1, 2, 3]]
    assert CPU.clone().copy_(x).device.type == "cpu"


def test_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'densecore' device type for generator but found 'cpu'"):
        torch.rand(3, device=D, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'densecore'"):
        torch.rand(3, generator=torch.Generator(D))


# transfers, numpy, printing, copies


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_round_trip(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape, dtype=dtype)
    there = x.to(D, non_blocking=True)
    assert there.device == torch.device(D, 0) and there.dtype == dtype and there.shape == x.shape
    assert torch.equal(there.cpu(), x) and there.tolist() == x.tolist()
    assert there.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() or x.numel() == 0


def test_numpy_and_dlpack_refuse_as_on_other_devices() -> None:
    x = numbers(3)
    for use in (x.numpy, lambda: numpy.asarray(x)):
        with pytest.raises(TypeError, match=r"can't convert densecore:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
            use()
    assert x.cpu().numpy().tolist() == [0, 1, 2]
    with pytest.raises((ValueError, BufferError), match="densecore"):
        torch.from_dlpack(x)
    assert torch.as_tensor(numpy.ones(2), device=D).device.type == D


def test_printing_and_formatting() -> None:
    assert repr(numbers(2)) == "tensor([0., 1.], device='densecore:0')"
    assert f"{numbers(3).sum():.1f}" == "3.0"


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("source", ["cpu", D])
@pytest.mark.parametrize("target", [None, "cpu", D, "densecore:0", torch.device(D)])
def test_save_and_load(source: str, target: Any, weights_only: bool) -> None:
    x = torch.arange(6.0).reshape(2, 3).to(source)
    loaded = torch.load(saved({"x": x, "view": x.t()}), map_location=target, weights_only=weights_only)
    assert loaded["x"].device.type == (torch.device(target).type if target else source)
    assert loaded["x"].tolist() == x.tolist()
    assert loaded["x"].untyped_storage().data_ptr() == loaded["view"].untyped_storage().data_ptr()


def test_pickle_deepcopy_and_state_dict() -> None:
    x = numbers(3)
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.device.type == D and other.tolist() == [0, 1, 2] and other.data_ptr() != x.data_ptr()
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(D)
    twin = copy.deepcopy(module)
    host = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    host.load_state_dict(module.state_dict())
    twin.load_state_dict(host.state_dict())
    for name, value in module.state_dict().items():
        assert torch.equal(host.state_dict()[name], value.cpu()) and torch.equal(twin.state_dict()[name], value)


def test_tied_weights_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight

    model = Tied()
    parameter = model.head.weight
    for device in (D, "cpu", D):
        model.to(device)
        assert model.head.weight is model.embedding.weight is parameter and parameter.device.type == device
        assert len(list(model.parameters())) == 1


def test_only_dense_strided_tensors() -> None:
    x = numbers(2, 3)
    for use in (x.to_sparse, x.to_sparse_csr, x.to_mkldnn, lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)):
        with pytest.raises(NotImplementedError, match="not supported on device 'densecore'"):
            use()


# random streams


@pytest.mark.parametrize(
    "draw",
    [
        lambda d, g: torch.rand(40, device=d, generator=g),
        lambda d, g: torch.randint(1000, (40,), device=d, generator=g),
        lambda d, g: torch.randperm(40, device=d, generator=g),
        lambda d, g: torch.empty(40, device=d).bernoulli_(0.3, generator=g),
        lambda d, g: torch.multinomial(torch.ones(40, device=d), 5, generator=g),
    ],
)
def test_the_stream_is_the_cpus(draw: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(3)
    expected = [draw("cpu", None), draw("cpu", None)]
    torch.manual_seed(3)
    mixed = [draw("cpu", None), draw(D, None).cpu()]  # one stream under both names
    own = [torch.Generator(d).manual_seed(3) for d in ("cpu", D)]
    apart = [draw("cpu", own[0]), draw(D, own[1]).cpu()]
    assert all(torch.equal(a, b) for a, b in zip(expected, mixed, strict=True))
    assert torch.equal(apart[0], apart[1]) and torch.equal(apart[0], expected[0])


def test_generator_states() -> None:
    generator = torch.Generator(D).manual_seed(5)
    assert generator.device.type == D and generator.initial_seed() == 5
    state = generator.get_state()
    first = torch.rand(4, device=D, generator=generator)
    generator.set_state(state)
    assert torch.equal(first, torch.rand(4, device=D, generator=generator))
    state = torch.densecore.get_rng_state()
    first = torch.rand(4, device=D)
    torch.densecore.set_rng_state(state)
    assert torch.equal(first, torch.rand(4, device=D))
    with torch.random.fork_rng(device_type=D):
        inside = torch.rand(4, device=D)
    assert torch.equal(inside, torch.rand(4, device=D))
    torch.densecore.manual_seed_all(9)
    assert torch.initial_seed() == torch.densecore.initial_seed() == 9


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_repeats_dropout(reentrant: bool) -> None:
    x = torch.ones(64, device=D, requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(lambda y: nn.functional.dropout(y * 2, 0.5), x, use_reentrant=reentrant)
    out.sum().backward()
    assert torch.equal(x.grad * x.detach(), out.detach())


# what torch's helpers ask of a device


def test_device_module_and_accelerator() -> None:
    module = torch.get_device_module(D)
    assert module is torch.densecore and module.is_available() and module.device_count() == 1 and module.current_device() == 0
    assert torch.accelerator.current_accelerator() == torch.device(D) and torch.accelerator.device_count() == 1
    torch.accelerator.synchronize()
    module.synchronize()
    with module.device(0), torch.device(D):
        assert torch.ones(2).device.type == nn.Linear(2, 2).weight.device.type == D
    assert module.get_device_properties().total_memory > 0 and "macos-arm64" in module.get_device_name()
    assert nn.Linear(2, 2).densecore().weight.is_densecore


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [False, True])
def test_data_loader(workers: int, pin: bool) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(10.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers, pin_memory=pin)
    batches = [batch for (batch,) in loader]
    assert torch.cat([b.to(D, non_blocking=True) for b in batches]).tolist() == list(range(10))
    assert all(b.is_pinned() == pin for b in batches)


def test_pinning() -> None:
    x = torch.ones(3)
    assert not x.is_pinned() and x.pin_memory().is_pinned() and x.pin_memory().device.type == "cpu"
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        numbers(3).pin_memory()
    with pytest.raises(RuntimeError, match="[Oo]nly dense CPU tensors can be pinned"):
        torch.empty(3, device=D, pin_memory=True)


def test_autocast_stays_disabled() -> None:
    x = numbers(2, 2)
    with pytest.warns(UserWarning, match="Disabling autocast"), torch.autocast(D, dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_inference_mode_and_views_of_normal_tensors() -> None:
    x = numbers(2, 3)
    with torch.inference_mode():
        assert (x + 1).is_inference()
        views = [x.view(6), x.unfold(0, 1, 1), x.split(1)[0], x.diagonal()]
    assert not any(view.is_inference() for view in views)


def test_functorch() -> None:
    x = numbers(2, 3)
    assert torch.func.grad(lambda a: (a * a).sum())(x).tolist() == (2 * x).tolist()
    assert torch.func.vmap(torch.sum)(x).tolist() == [3, 12]
    assert torch.func.jacrev(lambda a: a * a)(x[0]).diagonal().tolist() == [0, 2, 4]
    dropped = torch.func.vmap(lambda a: nn.functional.dropout(a + 1, 0.5), randomness="different")(x)
    assert dropped.device.type == D


def test_higher_order_gradients_and_hooks() -> None:
    x = numbers(3).requires_grad_()
    seen: list[torch.Tensor] = []
    x.register_hook(seen.append)
    (gradient,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad.tolist() == [0, 6, 12] and seen[0].device.type == D
    double = torch.rand(3, dtype=torch.float64, device=D, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: a.sin(), (double,))


def test_graph_capture() -> None:
    module, x = nn.Linear(3, 2).to(D), numbers(2, 3)
    for captured in (torch.jit.trace(module, x), torch.jit.script(module), torch.export.export(module, (x,)).module()):
        assert torch.equal(captured(x), module(x))


def test_compile(python: Any) -> None:
    text = """
import torch, torch_densecore
f = lambda a: a + 1
x = torch.ones(3, device="densecore")
assert torch.compile(f, backend="eager")(x).tolist() == [2, 2, 2]
assert torch.compile(f, backend="aot_eager")(x).tolist() == [2, 2, 2]
try:
    torch.compile(f)(x)
except Exception as error:
    assert "not supported on device 'densecore'" in str(error) and "--compile=False" in str(error), error
else:
    raise SystemExit("inductor ran")
"""
    python("-c", text)


def test_complex_and_negative_views() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j], device=D)
    assert (z.conj() + 1).tolist() == [2 - 2j, 4 + 1j]
    assert z.conj().imag.tolist() == [-2, 1]
    assert torch.view_as_real(z).tolist() == [[1, 2], [3, -1]]
    m = z.outer(z)
    assert torch.equal(m.mm(m.conj().t()).cpu(), m.cpu().mm(m.cpu().conj().t()))


def test_backward_runs_on_the_callers_thread() -> None:
    import threading

    places: list[int] = []

    def work() -> None:
        x = torch.ones(3, device=D, requires_grad=True)
        y = x * 2
        y.register_hook(lambda grad: places.append(threading.get_ident()))
        y.sum().backward()
        places.append(threading.get_ident())

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert places[0] == places[1] and places[2] == places[3] and places[0] != places[2]


def test_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> list[float]:
        generator = torch.Generator(D).manual_seed(seed)
        x = torch.rand(64, 64, device=D, generator=generator, requires_grad=True)
        for _ in range(20):
            (x @ x).sum().backward()
        return x.grad.sum(0).tolist()

    expected = [work(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == expected


def test_fork(python: Any) -> None:
    text = """
import os, torch, torch_densecore
x = torch.ones(64, 64, device="densecore")
expected = (x @ x).sum().item()
for _ in range(3):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        y = x + 0
        os._exit(0 if (y @ y).sum().item() == expected and torch.rand(3, device="densecore").numel() == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""
    assert python("-c", text).stdout.strip() == "done"


def test_torch_errors_come_through() -> None:
    for use in (
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.ones(2, 2, device=d).mm(torch.ones(2, 2, device=d, dtype=torch.float64)),
        lambda d: torch.empty(-1, device=d),
        lambda d: torch.ones(3, device=d)[5],
        lambda d: torch.ones(3, device=d)[torch.tensor([7])],
        lambda d: nn.functional.embedding(torch.tensor([9], device=d), torch.ones(3, 2, device=d)),
        lambda d: torch.ones(3, device=d).view(2),
        lambda d: torch.cat([torch.ones(2, 2, device=d), torch.ones(3, device=d)]),
        lambda d: nn.functional.dropout(torch.ones(3, device=d), 1.5),
        lambda d: torch.ones(2, device=d, dtype=torch.int64).bernoulli_(2.0),
    ):
        errors = []
        for device in ("cpu", D):
            with pytest.raises(Exception) as caught:
                use(device)
            errors.append(caught.value)
        assert type(errors[0]) is type(errors[1]), errors
        assert str(errors[0]) == str(errors[1])


def test_custom_op_with_a_cpu_kernel_alone() -> None:
    library = torch.library.Library("densecore_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert torch.ops.densecore_test.twice(numbers(3)).tolist() == [0, 2, 4]


def test_package_without_extension(python: Any) -> None:
    text = """
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch_densecore._C" else real(name, *rest)
import torch_densecore, torch
print(torch._C._get_privateuse1_backend_name())
"""
    assert python("-c", text, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.strip() == "privateuseone"
    assert torch_densecore.UncertifiedOpError.__mro__[1] is NotImplementedError
