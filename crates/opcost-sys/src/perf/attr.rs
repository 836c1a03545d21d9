//! Events, and the ways to count them.

use perf_event_open_sys::bindings;

/// An event with its counting options: the part of `perf_event_attr` that counting needs.
///
/// `Default` counts CPU cycles (kind 0, config 0) in all domains, from the moment of opening.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct EventAttr {
    /// The kind of event (PERF_TYPE_*), or the number of a PMU from sysfs.
    pub kind: u32,
    /// The event's code; its meaning depends on the kind.
    pub config: u64,
    /// More of the code, for PMUs that have it.
    pub config1: u64,
    /// More of the code, for PMUs that have it.
    pub config2: u64,
    /// More of the code, for PMUs that have it (since Linux 6.3).
    pub config3: u64,
    /// Do not count in user mode.
    pub exclude_user: bool,
    /// Do not count in kernel mode.
    pub exclude_kernel: bool,
    /// Do not count in the hypervisor.
    pub exclude_hv: bool,
    /// Also count processes that the task forks later.
    pub inherit: bool,
    /// Start when the task executes a program.
    pub enable_on_exec: bool,
    /// Open without counting.
    pub disabled: bool,
    /// Keep the counter on the hardware all the time; otherwise reads end with [`ShortRead`](super::ShortRead).
    pub pinned: bool,
}

impl EventAttr {
    /// Returns the kernel's structure; each read returns both times as well.
    pub(super) fn to_kernel(self) -> bindings::perf_event_attr {
        let mut raw = bindings::perf_event_attr::default();
        raw.type_ = self.kind;
        raw.size = size_of::<bindings::perf_event_attr>() as u32;
        raw.config = self.config;
        raw.config3 = self.config3;
        raw.read_format = u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        );
        raw.config1 = self.config1;
        raw.config2 = self.config2;
        raw.set_exclude_user(self.exclude_user.into());
        raw.set_exclude_kernel(self.exclude_kernel.into());
        raw.set_exclude_hv(self.exclude_hv.into());
        raw.set_inherit(self.inherit.into());
        raw.set_enable_on_exec(self.enable_on_exec.into());
        raw.set_disabled(self.disabled.into());
        raw.set_pinned(self.pinned.into());
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 64 flag bits of `perf_event_attr`, in the order of `<linux/perf_event.h>`.
    fn flags(attr: EventAttr) -> u64 {
        attr.to_kernel()._bitfield_1.get(0, 64)
    }

    #[test]
    fn every_flag_sets_its_own_bit() {
        let none = EventAttr::default();
        assert_eq!(flags(none), 0);
        assert_eq!(flags(EventAttr { disabled: true, ..none }), 1 << 0);
        assert_eq!(flags(EventAttr { inherit: true, ..none }), 1 << 1);
        assert_eq!(flags(EventAttr { pinned: true, ..none }), 1 << 2);
        assert_eq!(flags(EventAttr { exclude_user: true, ..none }), 1 << 4);
        assert_eq!(flags(EventAttr { exclude_kernel: true, ..none }), 1 << 5);
        assert_eq!(flags(EventAttr { exclude_hv: true, ..none }), 1 << 6);
        assert_eq!(flags(EventAttr { enable_on_exec: true, ..none }), 1 << 12);
    }

    #[test]
    fn codes_are_passed_on_and_no_group_read_is_asked_for() {
        let raw = EventAttr {
            kind: 4,
            config: u64::MAX,
            config1: 1,
            config2: 2,
            config3: 3,
            ..EventAttr::default()
        }
        .to_kernel();
        assert_eq!((raw.type_, raw.config), (4, u64::MAX));
        assert_eq!((raw.config1, raw.config2, raw.config3), (1, 2, 3));
        assert_eq!(raw.read_format, 3);
        // PERF_ATTR_SIZE_VER8, the size that includes config3.
        assert_eq!(raw.size, 136);
    }
}
