//! What requests have in common, so that a provider has to read it once.

use bowline_agent::children::{Beginning, Child};
use bowline_agent::tool::ToolContext;
use bowline_llm::scripted::Reply;
use pretty_assertions::assert_eq;

use crate::support::{echo, like, stage, tool};

// D19
#[tokio::test]
async fn siblings_of_one_configuration_begin_with_the_same_text_and_tools() {
    let stage = stage([Reply::call("ask", "{}"), Reply::text("done")]);
    let (model, mut helper) = like(&stage.agent, "helper", ["one", "two"].map(Reply::text));
    helper.instructions = "You help.".into();
    helper.tools.add(std::sync::Arc::new(echo())).unwrap();
    let ask = tool("ask", move |_, cx: ToolContext| {
        let helper = helper.clone();
        async move {
            let mut names = Vec::new();
            for key in ["a", "b"] {
                let key = Some(key.to_owned());
                let (agent, beginning) = (helper.clone(), Beginning::Fresh);
                let child = Child { key, beginning, ..Child::new(agent) };
                let handle = cx.children.create(child).await?;
                names.push(handle.meta().name.clone());
                handle.prompt("help").await?;
            }
            Ok(names.join(" ").into())
        }
    });
    let told = stage.with(ask).play().await;
    assert_eq!(told.result("call_1"), "helper-1 helper-2");
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].system, requests[1].system);
    assert_eq!(&*requests[0].system, "You help.");
    assert_eq!(requests[0].tools, requests[1].tools);
    assert_eq!(requests[0].messages, requests[1].messages);
}
