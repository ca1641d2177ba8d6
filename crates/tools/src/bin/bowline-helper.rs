//! The helper process as a program of its own, for those who embed the tools and cannot call
//! [`bowline_tools::helper`] first thing in their `main`.

fn main() -> std::process::ExitCode {
    bowline_tools::helper();
    std::process::ExitCode::from(2)
}
