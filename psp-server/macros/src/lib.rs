//! The attribute `preemptible` of psp-server: it puts checkpoints on the back edges of loops, as the compilers of Concord
//! (SOSP '23) and Synergy do.

use proc_macro::TokenStream;
use proc_macro2::Span;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Error, Expr, ExprAsync, ExprClosure, ExprConst, ExprRepeat, Ident, Item, ItemFn, Type, parse_quote};

/// Puts checkpoints into the loops of a function. See `psp_server::preemptible`.
#[proc_macro_attribute]
pub fn preemptible(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(&arguments.into(), function.into())
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(
    arguments: &proc_macro2::TokenStream,
    function: proc_macro2::TokenStream,
) -> Result<proc_macro2::TokenStream, Error> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`preemptible` takes no arguments"));
    }
    let mut function: ItemFn = syn::parse2(function)?;
    let signature = &function.sig;
    if let Some(keyword) = &signature.constness {
        return Err(Error::new_spanned(keyword, "a constant function has no other request to yield to"));
    }
    if let Some(keyword) = &signature.asyncness {
        return Err(Error::new_spanned(keyword, "an async function yields where it awaits"));
    }
    let mut loops = Loops { pace: Ident::new("pace", Span::mixed_site()), count: 0 };
    loops.visit_block_mut(&mut function.block);
    if loops.count == 0 {
        return Err(Error::new_spanned(&function.sig.ident, "`preemptible` finds no loop in this function"));
    }
    let pace = &loops.pace;
    let begin = parse_quote! { let mut #pace = ::psp_server::Pace::new(); };
    function.block.stmts.insert(0, begin);
    Ok(function.into_token_stream())
}

/// Puts a turn of the pace at the start of each loop's body.
struct Loops {
    pace: Ident,
    count: usize,
}

impl Loops {
    fn pass(&mut self, body: &mut Block) {
        let pace = &self.pace;
        body.stmts.insert(0, parse_quote! { #pace.turn(); });
        self.count += 1;
    }
}

impl VisitMut for Loops {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        visit_mut::visit_expr_mut(self, expression);
        match expression {
            Expr::ForLoop(it) => self.pass(&mut it.body),
            Expr::While(it) => self.pass(&mut it.body),
            Expr::Loop(it) => self.pass(&mut it.body),
            _ => {}
        }
    }

    // These run elsewhere, or on another thread.
    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}
    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
    // These run while the compiler does.
    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn expanded(arguments: proc_macro2::TokenStream, function: proc_macro2::TokenStream) -> String {
        match expand(&arguments, function) {
            Ok(tokens) => tokens.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn each_loop_has_a_turn_and_what_runs_elsewhere_has_none() {
        let source = quote! {
            fn work(n: u64) -> u64 {
                for _ in 0..n { while let Some(_) = next() { step(); } }
                let later = |_: u64| loop { step(); };
                fn other() { loop {} }
                let table = [const { loop { break 1 } }; { loop { break 2 } }];
                'out: loop { break 'out n }
            }
        };
        let expected = quote! {
            fn work(n: u64) -> u64 {
                let mut pace = ::psp_server::Pace::new();
                for _ in 0..n { pace.turn(); while let Some(_) = next() { pace.turn(); step(); } }
                let later = |_: u64| loop { step(); };
                fn other() { loop {} }
                let table = [const { loop { break 1 } }; { loop { break 2 } }];
                'out: loop { pace.turn(); break 'out n }
            }
        };
        assert_eq!(expanded(quote! {}, source), expected.to_string());
    }

    #[test]
    fn what_it_cannot_do_is_an_error_that_says_why() {
        let cases = [
            (quote! { fast }, quote! { fn f() { loop {} } }, "takes no arguments"),
            (quote! {}, quote! { const fn f() { loop {} } }, "a constant function"),
            (quote! {}, quote! { async fn f() { loop {} } }, "where it awaits"),
            (quote! {}, quote! { fn f() { (0..9).for_each(drop); } }, "finds no loop"),
            (quote! {}, quote! { struct S; }, "expected"),
        ];
        for (arguments, function, why) in cases {
            let message = expanded(arguments, function);
            assert!(message.starts_with("error: ") && message.contains(why), "{message}");
        }
    }
}
