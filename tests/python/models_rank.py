"""The tests of terse.models, on one of the ranks that make them together:

models_rank.py FOLDER RANK RANKS [unittest's arguments]"""

import datetime
import gc
import sys
import unittest
import weakref

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Shard
from torch.nn.parallel import DistributedDataParallel

import terse.models
from marked import Block, Model, exact_elements
from recorded import recorded

FOLDER, RANK, RANKS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CPU = torch.device("cpu")


def step(model):
    """What a step of training sends."""
    with recorded() as sent:
        model(torch.zeros(1, requires_grad=True)).sum().backward()
    return sent


class Case(unittest.TestCase):
    maxDiff = None

    def check(self, sent, messages):
        """That what was sent is what was foretold, and exact what is marked so. Returns how many
        exact elements each collective had."""
        self.assertTrue(sent)
        known = {(id(message.group), message.elements): message
                 for message in terse.models.united(messages, id)}
        marked = dict.fromkeys((one.collective for one in sent), 0)
        for collective, group, data in sent:
            data = data.flatten().float()
            self.assertIn((id(group), data.numel()), known, f"{collective} of {data.numel()}")
            message = known[id(group), data.numel()]
            exact = torch.zeros(data.numel(), dtype=torch.bool)
            end = -1
            for first, count in message.ranges:
                self.assertGreater(first, end, "ascending, and apart")
                self.assertGreater(count, 0)
                end = first + count
                exact[first:end] = True
            self.assertLessEqual(end, data.numel())
            self.assertFalse((data[exact] > 0).any(), f"{message.label}: what is not to be exact")
            self.assertFalse((data[~exact] < 0).any(), f"{message.label}: forgets what is")
            marked[collective] += int((data < 0).sum())
        return marked


class Fsdp1(Case):
    def wrap(self, model, **options):
        return FullyShardedDataParallel(model, device_id=CPU, **options,
                                        auto_wrap_policy=ModuleWrapPolicy({Block}))

    def test_flat_parameters(self):
        for original in (False, True):
            for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
                with self.subTest(use_orig_params=original, strategy=strategy):
                    model = Model()
                    exact = exact_elements(model)
                    wrapped = self.wrap(model, use_orig_params=original,
                                        sharding_strategy=strategy)
                    messages = terse.models.messages(wrapped)
                    marked = self.check(step(wrapped), messages)
                    self.assertEqual(marked["ReduceScatter"], exact)
                    self.assertGreaterEqual(marked["AllGather"], exact)
                    # FSDP pads between parameters, and never within one.
                    self.assertEqual(sum(count for message in messages
                                         for _, count in message.ranges), exact)

    def test_other_types(self):
        wrapped = self.wrap(Model(), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
        self.check(step(wrapped), terse.models.messages(wrapped))

    def test_no_shards(self):
        model = Model()
        exact = exact_elements(model)
        wrapped = self.wrap(model, sharding_strategy=ShardingStrategy.NO_SHARD)
        self.assertEqual(self.check(step(wrapped), terse.models.messages(wrapped)),
                         {"AllReduce": exact})

    def test_replicas_of_shards(self):
        for original in (False, True):
            model = Model()
            exact = exact_elements(model)
            wrapped = self.wrap(model, use_orig_params=original, device_mesh=MESH,
                                sharding_strategy=ShardingStrategy.HYBRID_SHARD)
            marked = self.check(step(wrapped), terse.models.messages(wrapped))
            self.assertEqual(marked["ReduceScatter"], exact)
            self.assertLess(marked["AllReduce"], exact)


class Fsdp2(Case):
    def wrap(self, model, **options):
        for block in model.blocks:
            fully_shard(block, **options)
        fully_shard(model, **options)
        for module in model.modules():
            if hasattr(module, "set_force_sum_reduction_for_comms"):
                module.set_force_sum_reduction_for_comms(True)
        return model

    def test_padded_shards(self):
        for mesh in (ALL, HALF):
            model = Model()
            exact = exact_elements(model)
            self.wrap(model, mesh=mesh)
            marked = self.check(step(model), terse.models.messages(model))
            self.assertEqual(marked["ReduceScatter"], exact)
            self.assertGreaterEqual(marked["AllGather"], exact)

    def test_other_types(self):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model = self.wrap(Model(), mesh=ALL, mp_policy=policy)
        self.check(step(model), terse.models.messages(model))

    def test_replicas_of_shards(self):
        model = Model()
        exact = exact_elements(model)
        self.wrap(model, mesh=MESH)
        marked = self.check(step(model), terse.models.messages(model))
        self.assertEqual(marked["ReduceScatter"], exact)
        self.assertLess(marked["AllReduce"], exact)

    def test_kept_on_fewer_ranks_between_the_passes(self):
        model = self.wrap(Model(), mesh=ALL, reshard_after_forward=2)
        sent = step(model)
        self.check(sent, terse.models.messages(model))
        self.assertEqual({one.group.size() for one in sent}, {2, RANKS})

    def test_parameters_that_are_not_trained(self):
        model = Model()
        model.head.weight.requires_grad_(False)
        model.blocks[0].norm.bias.requires_grad_(False)
        exact = exact_elements(model)
        self.wrap(model, mesh=ALL)
        marked = self.check(step(model), terse.models.messages(model))
        self.assertEqual(marked["ReduceScatter"], exact - 37)

    def test_sharded_by_columns(self):
        def placement(param):
            return Shard(1) if param.ndim > 1 and param.size(1) % RANKS == 0 else None

        model = self.wrap(Model(width=40), mesh=ALL, shard_placement_fn=placement)
        self.check(step(model), terse.models.messages(model))

    def test_types_that_differ_travel_as_bytes(self):
        model = Model()
        for param in model.blocks[0].norm.parameters():
            param.data = param.data.bfloat16()
            param.requires_grad_(False)
        self.wrap(model, mesh=ALL)
        messages = terse.models.messages(model)
        self.assertNotIn("FSDP2 AllGather of blocks.0", [message.label for message in messages])
        self.assertIn("FSDP2 AllGather of blocks.1", [message.label for message in messages])
        sent = step(model)
        self.assertIn(torch.uint8, [one.data.dtype for one in sent])
        self.check([one for one in sent if one.data.dtype != torch.uint8], messages)


class Ddp(Case):
    def test_buckets_from_the_second_step_on(self):
        model = Model()
        exact = exact_elements(model)
        wrapped = DistributedDataParallel(model, bucket_cap_mb=0.02)
        buckets = terse.models.DdpBuckets(wrapped)
        step(wrapped)
        buckets.layouts[99] = [("of an earlier step", (1,))]
        sent = step(wrapped)
        messages = terse.models.messages(buckets)
        self.assertEqual(len(messages), len(sent))
        self.assertGreater(len(messages), 2)
        for _ in range(2):
            wrapped.zero_grad()
            self.assertEqual(self.check(step(wrapped), messages), {"AllReduce": exact})
        for name, param in wrapped.module.named_parameters():  # a mean, as without the hook
            self.assertTrue((param.grad.abs() == 1).all(), name)

    def wrap_small(self):
        """A model that is but a row of four weights, whose gradients are the inputs."""
        wrapped = DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
        return wrapped, terse.models.DdpBuckets(wrapped)

    def test_nothing_holds_a_model_that_is_over(self):
        wrapped, buckets = self.wrap_small()
        wrapped(torch.ones(1, 4)).sum().backward()
        found = weakref.ref(wrapped.module)
        del wrapped
        gc.collect()
        self.assertIsNone(found())
        self.assertEqual(len(terse.models.messages(buckets)), 1)

    def test_ranks_that_have_no_more_inputs(self):
        for options in ({}, {"divide_by_initial_world_size": False, "enable": False}):
            wrapped, _ = self.wrap_small()
            with wrapped.join(**options):
                for left in (RANKS,) if options else (RANKS, 1):
                    if RANK < left:
                        wrapped.zero_grad()
                        wrapped(torch.ones(1, 4)).sum().backward()
                        self.assertEqual(wrapped.module.weight.grad.tolist(), [[left / RANKS] * 4])

    def test_averages_over_the_ranks_that_are_left(self):
        wrapped, _ = self.wrap_small()
        with self.assertRaisesRegex(terse.Error, "join.divide_by_initial_world_size=False"):
            with wrapped.join(divide_by_initial_world_size=False):
                wrapped(torch.ones(1, 4)).sum().backward()

    def test_a_model_by_itself(self):
        """Each step's buckets, from the first on."""
        model = Model()
        exact = exact_elements(model)
        wrapped = DistributedDataParallel(model, bucket_cap_mb=0.02)
        wrapped.register_comm_hook(None, default_hooks.allreduce_hook)  # recorded, as DDP's own is not
        layouts = []
        for _ in range(3):
            wrapped.zero_grad()
            with recorded() as sent:
                output = wrapped(torch.zeros(1, requires_grad=True))
                messages = terse.models.messages(wrapped)
                output.sum().backward()
            self.assertEqual(self.check(sent, messages), {"AllReduce": exact})
            layouts.append([(message.elements, message.ranges) for message in messages])
        self.assertEqual(terse.models.messages(torch.compile(wrapped)), messages)
        self.assertNotEqual(layouts[0], layouts[1])
        self.assertEqual(layouts[1], layouts[2])


class Rules(Case):
    def test_a_rule_is_asked_for_names_and_whole_shapes(self):
        """Alike by all, of whatever framework."""
        asked = []
        expected = {name: tuple(param.shape) for name, param in Model().named_parameters()}

        def rule(name, shape):
            asked.append((name, shape))
            return name.endswith("outer.weight")

        def buckets(model):
            wrapped = DistributedDataParallel(model)
            seen = terse.models.DdpBuckets(wrapped)
            step(wrapped)
            return seen

        for wrap in (Fsdp1().wrap, lambda model: Fsdp2().wrap(model, mesh=ALL), DistributedDataParallel,
                     buckets):
            for checkpoints in (False, True):
                model = Model()
                if checkpoints:
                    apply_activation_checkpointing(
                        model, check_fn=lambda module: isinstance(module, torch.nn.LayerNorm))
                asked.clear()
                messages = terse.models.messages(wrap(model), rule)
                self.assertEqual(dict(asked), expected)
                per_group = {message.label.split()[0] for message in messages if message.ranges}
                self.assertEqual(len(per_group), 1)

    def test_buckets_of_which_nothing_is_known(self):
        wrapped = DistributedDataParallel(torch.nn.Embedding(4, 4, sparse=True))
        with self.assertRaisesRegex(terse.Error, "as where gradients are sparse"):
            terse.models.messages(wrapped)

    def test_what_is_no_model(self):
        with self.assertRaisesRegex(TypeError, "Linear: neither DDP nor FSDP nor"):
            terse.models.messages(torch.nn.Linear(2, 2))


def main():
    global ALL, HALF, MESH
    dist.init_process_group("gloo", init_method=f"file://{FOLDER}/store", rank=RANK,
                            world_size=RANKS, timeout=datetime.timedelta(seconds=60))
    ALL = init_device_mesh("cpu", (RANKS,))
    MESH = init_device_mesh("cpu", (2, RANKS // 2), mesh_dim_names=("replicas", "shards"))
    HALF = MESH["shards"]
    done = unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2, exit=False)
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(not done.result.wasSuccessful())


if __name__ == "__main__":
    main()
