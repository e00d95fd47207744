"""terse.models on what stands for Megatron-LM's buffers, without PyTorch: megatron_test.py BUILD_FOLDER"""

import sys
import unittest
from unittest import mock

sys.path.insert(0, sys.argv[1] + "/lib/terse/python")
import terse.models  # noqa: E402
from megatron_buffers import Buffer, DistributedDataParallel, Group, Parameter  # noqa: E402


def layers(count):
    """Named as Megatron-LM does."""
    params = {"embedding.weight": Parameter(500, 72)}
    for k in range(count):
        params.update({f"layers.{k}.input_layernorm.weight": Parameter(72),
                       f"layers.{k}.linear_qkv.weight": Parameter(216, 72),
                       f"layers.{k}.linear_qkv.bias": Parameter(216),
                       f"layers.{k}.router.weight": Parameter(8, 72),  # small
                       f"layers.{k}.linear_fc1.weight": Parameter(288, 72)})
    return params


def exact_places(buffer, params):
    """Of all the buffer, element by element."""
    small = {params[name] for name in params if "norm" in name or "bias" in name or "router" in name}
    return {i for param, (first, end, _) in buffer.param_index_map.items() if param in small
            for i in range(first, end)}


def elements_of(ranges):
    return {i for first, count in ranges for i in range(first, first + count)}


class Megatron(unittest.TestCase):
    def check_buckets(self, buffer, params, messages):
        exact = exact_places(buffer, params)
        self.assertEqual([message.elements for message in messages],
                         [bucket.grad_data.numel() for bucket in buffer.buckets])
        for bucket, message in zip(buffer.buckets, messages):
            inside = range(bucket.offset, bucket.offset + message.elements)
            self.assertEqual(elements_of(message.ranges),
                             {i - bucket.offset for i in exact if i in inside})
            self.assertIs(message.group, buffer.data_parallel_group)

    def test_buckets(self):
        params, group = layers(3), Group(8)
        for bucket_size in (None, 40_000, 1):
            buffer = Buffer(list(params.values()), group, bucket_size)
            messages = terse.models.messages(DistributedDataParallel(params, [buffer]))
            self.check_buckets(buffer, params, messages)
            self.assertTrue(any(message.ranges for message in messages))

    def test_a_rule_is_asked_for_the_models_own_names(self):
        for wrapped in ("layers.0._checkpoint_wrapped_module.norm.weight",
                        "_orig_mod.layers.0.norm.weight", "layers.0._orig_mod.norm.weight"):
            params, asked = {wrapped: Parameter(72)}, []
            model = DistributedDataParallel(params, [Buffer(list(params.values()), Group(2))])
            terse.models.messages(model, lambda *about, asked=asked: asked.append(about))
            self.assertEqual(asked, [("layers.0.norm.weight", (72,))], wrapped)

    def test_experts_have_buffers_and_a_group_of_their_own(self):
        params = layers(2)
        experts = {"experts.fc1.weight": Parameter(300, 72), "experts.fc1.bias": Parameter(300)}
        buffers = [Buffer(list(params.values()), Group(8)), Buffer(list(experts.values()), Group(2))]
        model = DistributedDataParallel({**params, **experts}, buffers[:1], buffers[1:])
        messages = terse.models.messages([model])  # Megatron-LM's models are lists of chunks
        self.check_buckets(buffers[0], params, messages[:1])
        self.check_buckets(buffers[1], experts, messages[1:])

    def test_what_tensor_parallel_ranks_hold_alike(self):
        """Exact whatever the rule; not what is split, nor an expert's matrix that does not say so."""
        split = {"embedding.weight": Parameter(500, 72, split=True),
                 "mlp.experts.linear_fc1.weight0": Parameter(300, 72),
                 "mlp.experts.local_experts.0.linear_fc2.weight": Parameter(72, 80, split=True)}
        alike = {"position_embeddings.weight": Parameter(64, 72, split=False),
                 "norm.weight": Parameter(72), "mlp.router.weight": Parameter(32, 72),
                 "mlp.shared_experts.gate_weight": Parameter(1, 72),
                 "mlp.experts.local_experts.0.linear_fc2.bias": Parameter(72)}
        params = {**split, **alike}
        buffer = Buffer(list(params.values()), Group(2))
        for parts in (1, 2):
            message, = terse.models.messages(DistributedDataParallel(params, [buffer], parts=parts),
                                             lambda name, shape: False)
            self.assertEqual(sum(count for _, count in message.ranges),
                             sum(param.numel() for param in alike.values()) if parts > 1 else 0)

    def test_instances_of_the_optimizer_sum_their_shards(self):
        params = layers(1)
        for rank in range(4):
            within, between = Group(4, rank), Group(2)
            buffer = Buffer(list(params.values()), within)
            whole, shard = terse.models.messages(
                DistributedDataParallel(params, [buffer], between=between))
            self.assertIs(shard.group, between)
            self.assertEqual(4 * shard.elements, whole.elements)
            mine = range(rank * shard.elements, (rank + 1) * shard.elements)
            self.assertEqual(elements_of(shard.ranges),
                             {i - mine[0] for i in elements_of(whole.ranges) if i in mine})


class Excluding(unittest.TestCase):
    """exclude_norms, without a library."""

    def test_messages_that_cannot_be_told_apart_are_one(self):
        group, same, other = Group(2, comm=1), Group(2, comm=1), Group(2, comm=2)
        first = {"a.bias": Parameter(100), "a.weight": Parameter(100, 100)}
        second = {"b.weight": Parameter(100, 100), "b.bias": Parameter(100)}
        buffers = [Buffer(list(first.values()), group), Buffer(list(second.values()), same),
                   Buffer(list(first.values()), other)]
        self.assertEqual({buffer.buckets[0].grad_data.numel() for buffer in buffers}, {10_112 + 128})
        model = DistributedDataParallel({**first, **second}, buffers)
        with mock.patch.object(terse.models, "exclude") as exclude:
            excluded = terse.models.exclude_norms(model)
        self.assertEqual([call.args for call in exclude.call_args_list],
                         [(group, 10_240, [(0, 100), (10_048, 100)]), (other, 10_240, [(10_048, 100)])])
        self.assertEqual([tuple(message[:2]) for message in excluded],
                         [(10_240, [(0, 100), (10_048, 100)]), (10_240, [(10_048, 100)])])

    def test_a_communicator_that_is_not_there_yet_is_made(self):
        group = Group(2, comm=0)
        params = {"a.bias": Parameter(100)}
        model = DistributedDataParallel(params, [Buffer(list(params.values()), group)] * 2)
        barriers = []

        def barrier(group):
            barriers.append(group)
            group.comm = 1

        torch = mock.Mock()
        torch.distributed.barrier = barrier
        with mock.patch.object(terse.models, "exclude") as exclude, mock.patch.dict(
                sys.modules, {"torch": torch, "torch.distributed": torch.distributed}):
            terse.models.exclude_norms(model)
        self.assertEqual(barriers, [group])
        exclude.assert_called_once_with(group, 128, [(0, 100)])

    def test_ranges_are_joined(self):
        """terse.exclude wants them ascending and apart."""
        model = DistributedDataParallel(
            {"a": Parameter(64), "b": Parameter(64), "c": Parameter(50, 50), "d": Parameter(0)}, [])
        model.buffers = [Buffer(list(model.module.params.values()), Group(2))]
        message, = terse.models.messages(model)
        self.assertEqual(message.ranges, [(2_560 - 2_560 % 64, 128)])

    def test_the_rule(self):
        for shape, exact in {(): True, (5_000,): True, (31, 33): True, (32, 32): False,
                             (2, 2, 256): False, (2, 2, 255): True}.items():
            self.assertIs(terse.models.norms_and_biases("weight", shape), exact, shape)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
