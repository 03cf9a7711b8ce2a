-- title: Which outages lasted longest, and how much of all downtime do they make?
-- grain: outage, the twenty longest
-- reads: outages_in_window
-- units: down_h in hours within the window; GPU-hours; cumulative share of all GPU-hours down; times UTC
-- source: model.md section 1 (outage)
-- caveat: raw outages: two faults of one node at one time count twice. An outage that still_open is at the
--   window's end is longer than it looks, and so is one that began before the window.
with

outages as (
    select * from outages_in_window($scenario)
),

ranked as (
    select
        row_number() over longest as place,
        node,
        gpu,
        component,
        reason,
        t_start,
        t_end,
        down_h,
        gpus,
        down_gpu_h,
        sum(down_gpu_h) over longest / nullif(sum(down_gpu_h) over (), 0) as cumulative_frac,
        is_censored as still_open,
        not begins_in_window as began_before,
    from outages
    window longest as (order by down_h desc, down_gpu_h desc, t_start, outage_id rows unbounded preceding)
)

select * from ranked
where place <= 20
order by place
