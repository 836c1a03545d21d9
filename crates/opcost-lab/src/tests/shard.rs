use crate::resolve::fixture;
use opcost_model::plan::*;
use proptest::prelude::*;

#[test]
fn a_shard_is_read_and_written() {
    for text in ["1/1", "3/8", "8/8"] {
        assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
    }
    for (text, part) in [
        ("0/8", "1/8 to 8/8"),
        ("9/8", "1/8 to 8/8"),
        ("1/0", "1 to 100000 shards"),
        ("3", "for example 3/8"),
        ("a/b", "for example 3/8"),
        ("-1/8", "for example 3/8"),
        ("", "for example 3/8"),
    ] {
        let error = text.parse::<Shard>().unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn every_block_is_in_one_shard(pairs in 2u32..40, of in 1u32..12) {
        let whole = fixture::plan(2, pairs);
        let shards = ShardPlan { of, index: None, blocks: None };
        let plan = Plan { shards: Some(shards), ..whole.clone() };
        let blocks: Vec<u32> =
            (1..=of).flat_map(|index| plan.blocks_of_shard(Shard { index, of })).collect();
        prop_assert_eq!(blocks, (0..whole.blocks.len() as u32).collect::<Vec<_>>());
        let sizes = (1..=of).map(|index| plan.blocks_of_shard(Shard { index, of }).len());
        let (least, most) = sizes.fold((usize::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
        prop_assert!(most - least <= 1);
        let mut slots: Vec<Slot> =
            (1..=of).flat_map(|index| plan.with_shard(Some(index)).slots().collect::<Vec<_>>()).collect();
        slots.sort_by_key(|slot| slot.slot);
        slots.dedup();
        prop_assert_eq!(slots, whole.slots().collect::<Vec<_>>());
        prop_assert_eq!(plan.with_shard(None), whole);
    }
}
