"""bench/train's quantizers with one scale for a call: dithering_test.py [unittest's arguments], with a
Python that has PyTorch"""

import os
import sys
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench", "training"))
import dithering  # pylint: disable=wrong-import-position


def mean_of(name, ranks):
    """What comes of the mean of the ranks' values (their rows), and its codes."""
    count = len(ranks)
    quantizer = dithering.QUANTIZERS[name](count)
    scale = ranks.abs().max()
    codes = [quantizer.encode(values, scale, torch.Generator().manual_seed(rank))
             for rank, values in enumerate(ranks)]
    return quantizer.mean(codes, scale, torch.Generator().manual_seed(count)), codes


def normal(ranks, count):
    return torch.randn(ranks, count, generator=torch.Generator().manual_seed(17))


class Error(unittest.TestCase):
    # Normalized mean squared error on Gaussian data, one scale for 40,000 values on each rank.
    KNOWN = {"linear8": {4: 0.0043, 8: 0.020, 16: 0.085},
             "exp8": {4: 0.244, 8: 0.337, 16: 0.423}}

    def test_is_that_of_the_operators(self):
        for name, errors in self.KNOWN.items():
            for ranks, error in errors.items():
                with self.subTest(name=name, ranks=ranks):
                    values = normal(ranks, 40000)
                    exact = values.mean(0)
                    result, _ = mean_of(name, values)
                    found = (result - exact).square().sum() / exact.square().sum()
                    self.assertAlmostEqual(found.item() / error, 1, delta=0.08)

    def test_has_no_bias(self):
        for name in dithering.QUANTIZERS:
            for ranks in 2, 3, 4:
                with self.subTest(name=name, ranks=ranks):
                    values = torch.tensor([[0.7], [-0.2], [0.05], [1.0]])[:ranks]
                    result, _ = mean_of(name, values.repeat(1, 200000))
                    self.assertAlmostEqual(result.mean().item(), values.mean().item(),
                                           delta=1e-6 + 5 * result.std().item() / 200000 ** 0.5)


class Codes(unittest.TestCase):
    def test_of_linear_dithering_fit_eight_bits_when_summed(self):
        for ranks in 2, 3, 5, 16:
            _, codes = mean_of("linear8", torch.ones(ranks, 1000))
            self.assertEqual(torch.stack(codes).sum(0).unique().tolist(), [127 // ranks * ranks])

    def test_of_exponential_dithering_are_powers_of_two(self):
        for ranks in 2, 3, 4:
            values = normal(ranks, 1000)
            values[:, 7] = 0
            _, codes = mean_of("exp8", values)
            for code in codes:
                self.assertEqual(code[7], 0)
                mantissa, exponent = torch.frexp(code[code != 0])
                self.assertEqual(mantissa.abs().unique().tolist(), [0.5])
                self.assertLess(exponent.max(), 1)

    def test_of_exponential_dithering_end_at_127(self):
        values = torch.tensor([[1.0, 2.0 ** -90, 2.0 ** -126], [0.0, 0.0, 0.0]])
        result, _ = mean_of("exp8", values)  # of a scale of 4 for two ranks
        self.assertEqual(result.tolist(), [0.5, 2.0 ** -91, 0])


if __name__ == "__main__":
    unittest.main()
