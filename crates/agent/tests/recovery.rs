//! Every run, cut at every commit and gone on with, comes to the same as the run that was not cut.

#[cfg(test)]
mod support {
    #![allow(dead_code, reason = "not every test needs all of it")]
    pub(crate) mod crashing;
    pub(crate) mod jobs;
    pub(crate) mod scenario;
}

#[cfg(test)]
mod tests {
    use super::support::jobs::job;

    macro_rules! cut_everywhere {
        ($($test:ident: $job:literal;)*) => {
            $(#[test]
            fn $test() {
                println!("{} cuts", job($job).cut_everywhere());
                println!("{} pairs of cuts", job($job).cut_twice(1));
            })*
        };
    }

    cut_everywhere! {
        parallel_calls_of_all_sorts: "parallel calls of all sorts";
        three_turns_with_notes: "three turns with notes";
        a_child_with_two_prompts: "a child with two prompts";
        children_side_by_side: "children side by side";
        nested_children: "nested children";
        a_child_that_is_waited_for: "a child that is waited for";
        a_child_that_forks_its_parent: "a child that forks its parent";
        an_answer_that_is_cut_and_goes_on: "an answer that is cut and goes on";
        what_others_say: "what others say";
        a_cancel_from_elsewhere: "a cancel from elsewhere";
        decisions_and_answers: "decisions and answers";
        decisions_for_children: "decisions for children";
        a_question_that_nobody_answers: "a question that nobody answers";
        a_limit_of_model_calls: "a limit of model calls";
        a_limit_of_tool_calls: "a limit of tool calls";
        a_limit_of_tokens: "a limit of tokens";
        a_tool_that_ends_the_run: "a tool that ends the run";
        a_model_that_is_tried_again: "a model that is tried again";
        large_bodies: "large bodies";
        outputs_that_are_cut: "outputs that are cut";
        a_model_that_fails: "a model that fails";
    }
}
