fn sum_of(rows: u64) -> String {
    let mut sum = 0_u64;
    for row in 0..rows {
        sum = sum.wrapping_add(black_box(row));
        if row % 64 == 0 {
            psp_pool::checkpoint(); // does nothing where the layer polls the request inline
        }
    }
    format!("{sum}\n")
}
