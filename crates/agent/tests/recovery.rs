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
        ($($test:ident: $job:literal, $stride:literal;)*) => {
            $(#[test]
            fn $test() {
                println!("{} cuts", job($job).cut_everywhere());
                println!("{} pairs of cuts", job($job).cut_twice($stride));
            })*
        };
    }

    cut_everywhere! {
        parallel_calls_of_all_sorts: "parallel calls of all sorts", 3;
        three_turns_with_notes: "three turns with notes", 3;
        a_child_with_two_prompts: "a child with two prompts", 11;
        children_side_by_side: "children side by side", 29;
        nested_children: "nested children", 13;
        a_child_that_is_waited_for: "a child that is waited for", 3;
        a_child_that_forks_its_parent: "a child that forks its parent", 3;
        an_answer_that_is_cut_and_goes_on: "an answer that is cut and goes on", 3;
        what_others_say: "what others say", 3;
        a_cancel_from_elsewhere: "a cancel from elsewhere", 3;
        decisions_and_answers: "decisions and answers", 7;
        decisions_for_children: "decisions for children", 11;
        a_question_that_nobody_answers: "a question that nobody answers", 3;
        a_limit_of_model_calls: "a limit of model calls", 3;
        a_limit_of_tool_calls: "a limit of tool calls", 3;
        a_limit_of_tokens: "a limit of tokens", 3;
        a_limit_of_time_while_the_model_speaks: "a limit of time while the model speaks", 3;
        a_limit_of_time_without_a_last_word: "a limit of time without a last word", 3;
        a_limit_of_time_while_tools_run: "a limit of time while tools run", 3;
        children_that_speak_late: "children that speak late", 29;
        a_tool_that_ends_the_run: "a tool that ends the run", 3;
        a_model_that_is_tried_again: "a model that is tried again", 3;
        large_bodies: "large bodies", 9;
        outputs_that_are_cut: "outputs that are cut", 3;
        a_model_that_fails: "a model that fails", 3;
    }
}
