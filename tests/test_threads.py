"""How many host threads run, and which of them calls, cannot change a bit; nothing waits for ever."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from torch_densecore import profile

TIMEOUT = 120  # seconds; each takes a few


def work(seed: int = 0, backward: bool = True) -> str:
    """A digest over ops that divide their work among threads: kernels, host calls, autograd."""
    generator = torch.Generator("densecore").manual_seed(seed)
    x = torch.randn(257, 301, generator=generator, device="densecore").requires_grad_()
    w = torch.randn(301, 301, generator=generator, device="densecore").requires_grad_()
    h = torch.nn.functional.gelu(x @ w) * 0.5 + x
    h = torch.nn.functional.layer_norm(h, (301,))
    q = h[:256, :256].reshape(2, 4, 64, 128)
    h = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    loss = torch.nn.functional.cross_entropy(h.reshape(-1, 128), torch.arange(512, device="densecore") % 128)
    results = [h, loss, x.exp().sum(0), torch.softmax(w, 0), w.std(), torch.sort(x, 1)[1]]
    if backward:
        loss.backward()
        results += [x.grad, w.grad]
    digest = hashlib.sha256()
    for tensor in results:
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def expected() -> str:
    return work()


def test_other_input_gives_another_digest(expected: str) -> None:
    assert work(1) != expected


def test_the_profiles_threads_do_change_bits(expected: str) -> None:
    """What must not matter on the host matters in the reference: the comparison is not vacuous."""
    with profile.use(threads=1):
        assert work() != expected


@pytest.mark.parametrize("count", range(1, 17))
def test_number_of_intra_op_threads(count: int, expected: str) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        assert work() == expected
    finally:
        torch.set_num_threads(before)


def test_several_python_threads_at_once(expected: str) -> None:
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(work()), daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert results == [expected] * 6


@torch.jit.script
def _scripted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    parts = [torch.jit.fork(torch.matmul, x, w) for _ in range(4)]
    total = x.exp()
    for part in parts:
        total = total + torch.jit.wait(part)
    return total


def test_inter_op_threads() -> None:
    x = torch.randn(200, 200, device="densecore")
    product, total = x @ x, x.exp()
    for _ in range(4):
        total = total + product
    assert torch.equal(_scripted(x, x).cpu(), total.cpu())


def child(*arguments: str) -> list[str]:
    """The command line of this file's part for processes of their own."""
    return [str(Path(__file__)), *arguments]


@pytest.mark.parametrize(
    "environment",
    [
        {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}, {"OMP_NUM_THREADS": "5", "OMP_DYNAMIC": "true"},
        {"OMP_NUM_THREADS": "2,3", "OMP_MAX_ACTIVE_LEVELS": "3"}, {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"},
        {"MKL_NUM_THREADS": "1"}, {"OMP_SCHEDULE": "dynamic", "OMP_THREAD_LIMIT": "2"},
    ],
    ids=str,
)  # fmt: skip
def test_openmp_settings(environment: dict[str, str], expected: str, python: Callable) -> None:
    assert python(*child("plain"), timeout=TIMEOUT, **environment).stdout.strip() == expected


@pytest.mark.parametrize("how", ["fork", "spawn", "loader-fork", "loader-spawn"])
def test_other_processes(how: str, python: Callable) -> None:
    """Also after the parent has started its threads, where torch's own CPU operators wait for ever in a forked child."""
    assert python(*child(how), timeout=TIMEOUT, OMP_NUM_THREADS="2").stdout.split() == [work(backward=False)] * 3


def test_backward_in_a_forked_child(python: Callable) -> None:
    """After a backward pass in the parent torch refuses it, as for every device with threads of its own; nothing hangs."""
    assert python(*child("backward"), timeout=TIMEOUT, OMP_NUM_THREADS="2").stdout.split() == ["RuntimeError"]


# ---- what runs in processes of their own ---------------------------------------------------------------------------------


class Digests(torch.utils.data.Dataset):
    """Every item is the digest, computed in the worker."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return work(backward=False)


def in_process(queue: torch.multiprocessing.Queue) -> None:
    queue.put(work(backward=False))


def backward_in_process(queue: torch.multiprocessing.Queue) -> None:
    try:
        queue.put(work())
    except RuntimeError as error:
        assert "fork-based multiprocessing" in str(error)
        queue.put("RuntimeError")


def _processes(how: str, target: Callable, count: int) -> list[str]:
    context = torch.multiprocessing.get_context(how)
    queue = context.Queue()
    processes = [context.Process(target=target, args=(queue,)) for _ in range(count)]
    for process in processes:
        process.start()
    digests = [queue.get(timeout=TIMEOUT) for _ in processes]
    for process in processes:
        process.join()
    return digests


def main(how: str) -> None:
    if how in ("plain", "backward"):
        digest = work()
        print(*([digest] if how == "plain" else _processes("fork", backward_in_process, 1)))
        return
    print(work(backward=False))  # starts torch's threads
    if how.startswith("loader-"):
        context = how.removeprefix("loader-")
        loader = torch.utils.data.DataLoader(Digests(), num_workers=2, batch_size=None, multiprocessing_context=context)
        print(*loader, sep="\n")
    else:
        print(*_processes(how, in_process, 2), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
