//! Servers of request lines and reply lines.

use psp_protocols::Lines;

use super::program::{assert_every_arrival_ends_once, run, server, type_of};
use crate::scripted::serve::Answer;

#[test]
fn each_line_has_a_reply_line() {
    let addr = server(Lines::default(), |line| match line {
        b"fast\n" => Answer::Reply(b"done\n"),
        b"add 3 4\n" => Answer::Reply(b"7\r\n"),
        _ => Answer::Reply(b"ERR unknown command\n"),
    });
    let target = format!("lines+tcp://{addr}");
    let mix = "fast@200/s,add 3 4@100/s,other@100/s";
    let report = run(&target, mix, "--connections 1 --pipeline 8");
    assert_every_arrival_ends_once(&report);
    assert_eq!(type_of(&report, "fast")["completed"], 100);
    assert_eq!(type_of(&report, "add")["completed"], 50);
    assert_eq!(type_of(&report, "other")["errors"]["ERR"], 50);
}
