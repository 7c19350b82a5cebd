//! Arrays with permuted axes.

#![expect(clippy::disallowed_methods, reason = "the shared test code creates files")]

mod common;

use std::sync::Arc;

use common::Random;
use lodstone_store::{Blob, Permuted};

/// Returns the elements in the new order, computed one by one.
fn expected(bytes: &[u8], item: usize, shape: &[u64], order: &[usize]) -> Vec<u8> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut out = Vec::new();
    for number in 0..shape.iter().product::<u64>() {
        let (mut rest, mut place) = (number, 0);
        for axis in order.iter().rev() {
            place += rest % shape[*axis] * strides[*axis];
            rest /= shape[*axis];
        }
        let at = usize::try_from(place).expect("small") * item;
        out.extend_from_slice(&bytes[at..at + item]);
    }
    out
}

#[test]
fn every_permutation_of_axes_orders_the_elements() {
    let mut random = Random::new(3);
    for round in 0..300 {
        let rank = usize::try_from(random.below(5)).expect("small");
        let most = if round % 10 == 0 { 40 } else { 7 };
        let shape: Vec<u64> = (0..rank).map(|_| 1 + random.below(most)).collect();
        let item = [1, 2, 4, 8, 16][usize::try_from(random.below(5)).expect("small")];
        let size = usize::try_from(shape.iter().product::<u64>()).expect("small") * item;
        if size > 1 << 20 {
            continue;
        }
        let bytes: Vec<u8> = (0..size).map(|_| random.below(256).to_le_bytes()[0]).collect();
        let mut order: Vec<usize> = (0..rank).collect();
        for last in (1..rank).rev() {
            order.swap(last, usize::try_from(random.below(last as u64 + 1)).expect("small"));
        }
        let expected = expected(&bytes, item, &shape, &order);
        let permuted = Permuted::new(Blob::memory(bytes), item, &shape, &order).expect("an order");
        let permuted = Blob::derived(Arc::new(permuted));
        assert!(permuted.bytes().expect("bytes") == expected, "{shape:?} {order:?}");
        for _ in 0..5 {
            let start = random.below(size as u64 + 1);
            let len = random.below(size as u64 - start + 1);
            let range = usize::try_from(start).expect("small")
                ..usize::try_from(start + len).expect("small");
            let piece = permuted.slice(start, len).expect("inside").bytes().expect("bytes");
            assert!(piece == expected[range], "{shape:?} {order:?} {start} {len}");
        }
    }
}

#[test]
fn an_invalid_permutation_is_none() {
    let new = |size: usize, item, shape: &[u64], order: &[usize]| {
        Permuted::new(Blob::memory(vec![0; size]), item, shape, order).is_some()
    };
    assert!(new(24, 4, &[2, 3], &[1, 0]) && new(4, 4, &[], &[]) && new(0, 4, &[0, 3], &[1, 0]));
    assert!(!new(24, 4, &[2, 3], &[0, 0]) && !new(24, 4, &[2, 3], &[1, 2]));
    assert!(!new(24, 4, &[2, 3], &[0]) && !new(25, 4, &[2, 3], &[1, 0]));
    assert!(!new(18, 3, &[2, 3], &[1, 0]) && !new(0, 1, &[u64::MAX, 2], &[1, 0]));
}
