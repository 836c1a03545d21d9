//! Whether runs have been made before: a digest of all that exact counts depend on.

use super::Emulated;
use super::prepared::Initrd;
use opcost_kernel::digest;
use opcost_model::plan::{GUEST_TREE, Plan, VariantPlan};
use opcost_record::request::{GuestJob, GuestRequest};
use std::fs;
use std::os::unix::fs::MetadataExt;

impl Emulated<'_> {
    /// The digest of the plan, the guests' kept states and their jobs, wherever the revision's tree is; `None` if something of the
    /// user's runs beside the guests, or a guest's kept state does not cover its files.
    pub(super) fn digest_of_inputs(&self, plan: &Plan) -> Option<String> {
        let hooks = [&plan.hooks.setup, &plan.hooks.cleanup];
        let own = plan.variants.iter().flat_map(|variant| [&variant.setup, &variant.cleanup]);
        let has_hooks = hooks.into_iter().chain(own).any(Option::is_some);
        let has_disk =
            |variant: &VariantPlan| variant.guest.as_ref().is_none_or(|guest| guest.disk.is_some());
        if has_hooks
            || plan.has_hooks_between_runs()
            || plan.build().is_some()
            || plan.variants.iter().any(has_disk)
        {
            return None;
        }
        let unlabelled = Plan { label: None, invocation: None, ..plan.clone() };
        let mut text = serde_json::to_string(&unlabelled).ok()?;
        // Guests have the tree at one place.
        for tree in plan.variants.iter().filter_map(|variant| variant.tree.as_deref()) {
            text = text.replace(tree.to_str()?, GUEST_TREE);
        }
        let mut parts = vec![env!("CARGO_PKG_VERSION").to_string(), text];
        for prepared in &self.prepared {
            let boot = prepared.boot.as_ref()?;
            let Initrd::Booted { state, job, .. } = &boot.initrd else { return None };
            // The state's key has QEMU, kernel, machine and all files.
            parts.push(state.folder().file_name()?.to_str()?.to_string());
            parts.push(digest(&GuestRequest::from(GuestJob::clone(job)).encode()));
        }
        for equipment in &self.equipment {
            // Another build of the plugin may name functions in another way.
            let plugin = fs::metadata(&equipment.tools.plugin).ok()?;
            parts.push(format!("{} {} {}", plugin.len(), plugin.mtime(), plugin.mtime_nsec()));
        }
        Some(digest(parts.join("\n").as_bytes()))
    }
}
