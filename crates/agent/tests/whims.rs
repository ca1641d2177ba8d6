//! Laws that hold whatever effects do, and when: errors, cancels, limits and crashes included.

#[cfg(test)]
mod support {
    #![allow(dead_code, reason = "not every test needs all of it")]
    pub(crate) mod crashing;
    pub(crate) mod jobs;
    pub(crate) mod laws;
    pub(crate) mod scenario;
    pub(crate) mod whims;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::support::crashing::{Cut, Side, World};
    use super::support::laws::check_log;
    use super::support::scenario::End;
    use super::support::whims::{Moody, check_story, moody};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_effects_do_what_is_seen_is_what_the_log_says(moody in moody()) {
            let world = Arc::new(World::default());
            prop_assert_eq!(moody.live(&world, None), End::Finished);
            check_log(&world);
            check_story(&world);
        }

        #[test]
        fn whatever_effects_do_a_run_cut_anywhere_comes_to_a_valid_end(
            moody in moody(), commit in 0..40_usize, before: bool, again in 0..20_usize,
        ) {
            let world = Arc::new(World::default());
            let side = if before { Side::Before } else { Side::After };
            if moody.live(&world, Some(Cut { commit, side })) == End::Crashed
                && moody.live(&world, Some(Cut { commit: again, side })) == End::Crashed
            {
                prop_assert_eq!(moody.live(&world, None), End::Finished);
            }
            check_log(&world);
            check_story(&world);
        }

        #[test]
        fn whatever_effects_do_a_fork_from_anywhere_is_a_session_like_any_other(
            moody in moody(), other in moody(), at in 0..1_000_usize,
            commit in proptest::option::of(0..20_usize),
        ) {
            let origin = Arc::new(World::default());
            moody.live(&origin, None);
            let world = Arc::new(World::default());
            let cut = commit.map(|commit| Cut { commit, side: Side::After });
            if other.live_in_a_fork(&world, cut, &origin, at) == End::Crashed {
                let ended = other.live_in_a_fork(&world, None, &origin, at);
                prop_assert_eq!(ended, End::Finished);
            }
            check_log(&world);
            check_story(&world);
        }
    }

    #[test]
    fn what_effects_do_at_random_is_worth_its_name() {
        Moody::is_worth_its_name();
    }
}
