use crate::resolve::fixture::plan;
use opcost_model::plan::*;

#[test]
fn label_and_revisions_are_said_once_where_they_are_the_same() {
    let revision =
        |commit: char, dirty| Some(Revision { commit: commit.to_string().repeat(40), dirty });
    let mut plan = plan(2, 4);
    assert_eq!(plan.provenance(), None);
    plan.label = Some("nightly".into());
    assert_eq!(plan.provenance().unwrap(), "label nightly");
    for variant in &mut plan.variants {
        variant.revision = revision('a', Some(true));
    }
    let dirty = "label nightly; commit aaaaaaaaaaaa with changes that are not committed";
    assert_eq!(plan.provenance().unwrap(), dirty);
    plan.label = None;
    plan.variants[1].revision = revision('b', Some(false));
    assert_eq!(
        plan.provenance().unwrap(),
        "commits: v0 aaaaaaaaaaaa with changes that are not committed; v1 bbbbbbbbbbbb"
    );
    plan.variants[0].revision = None;
    assert_eq!(plan.provenance().unwrap(), "commits: v0 unknown; v1 bbbbbbbbbbbb");
    assert_eq!(revision('c', Some(true)).unwrap().short(), "cccccccccccc+");
    assert_eq!(revision('c', None).unwrap().short(), "cccccccccccc");
}
