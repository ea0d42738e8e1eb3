//! How the page looks, in light and in dark.

/// Colours of plots can be told apart also by those who see fewer of them (after Okabe and Ito).
pub const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b2733; --soft: #5d6b78; --line: #d8dee4; --paper: #ffffff; --tint: #f4f6f8;
  --accent: #0072b2; --warn: #b34700; --shade: rgba(20, 30, 40, .28);
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9; --c5: #d55e00; --c6: #8a8a8a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e9ee; --soft: #9aa8b4; --line: #35414c; --paper: #12181e; --tint: #1b232b;
    --accent: #56b4e9; --warn: #ff9a4d; --shade: rgba(0, 0, 0, .75); --c0: #2f8fd0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  -webkit-text-size-adjust: 100%; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
p { max-width: 46rem; }
pre { background: var(--tint); padding: .6rem .9rem; border-radius: 4px; font-size: .85rem; max-width: 100%;
  white-space: normal; overflow-x: auto; } pre span { white-space: nowrap; }
.conclusion { border-left: 4px solid var(--accent); background: var(--tint); padding: .3rem 1rem; margin: 1rem 0; }
.conclusion p { font-size: 1.1rem; margin: .5rem 0; }
.warning { color: var(--warn); font-weight: 600; }
.machine { color: var(--soft); font-size: .9rem; }

.table { margin: .8rem 0 1.2rem; }
.hint { display: none; margin: 0 0 .2rem; text-align: right; color: var(--soft); font-size: .8rem; max-width: none; }
.wide .hint { display: block; }
@media (max-width: 60rem) { .wide-on-phone .hint { display: block; } }
@media (min-width: 52rem) { .wide-on-phone .hint { display: none; } }
.scroll { overflow-x: auto;
  background: linear-gradient(to left, var(--paper) 30%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll, var(--paper); }
table { border-collapse: separate; border-spacing: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem 0 .35rem 1.1rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; line-height: 1.25; }
th.words, td.words { text-align: left; }
th .unit { display: block; font-weight: 400; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--paper);
  padding-left: 0; padding-right: .6rem; }
@media (max-width: 40rem) {
  main { padding: 1.2rem .8rem 3rem; }
  td.words, th:first-child { white-space: normal; max-width: 9.5rem; line-height: 1.25; }
  td:first-child { min-width: 7rem; }
  .scroll td:first-child, .scroll th:first-child { border-right: 1px solid var(--line); } }

figure { margin: 1.2rem 0; } figcaption { font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: 0; margin: .2rem 0 .5rem;
  font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; width: .75rem; height: .75rem; margin-right: .35rem; border-radius: 2px; }
.bar { display: grid; grid-template-columns: 15rem 1fr; gap: .7rem; align-items: center; margin: .3rem 0; font-size: .9rem; }
.label { text-align: right; line-height: 1.2; }
.track { display: flex; align-items: center; padding-right: 4.2rem; height: 1.4rem; }
.track i { flex: none; height: 100%; } .track b { flex: none; margin-left: .5rem; width: 0; font-weight: 400;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 40rem) { .bar { display: block; margin: .5rem 0; } .label { text-align: left; display: block; }
  .track { height: 1.1rem; } }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); }
i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); } i.c6 { background: var(--c6); }

.plot { position: relative; height: 20rem; margin: 1rem .8rem 2rem 3.2rem; font-size: .8rem; color: var(--soft); }
.plot svg { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot span { position: absolute; } .plot b { font-weight: 400; }
.y { left: 0; right: 0; border-top: 1px solid var(--line); }
.y b { position: absolute; right: 100%; margin-right: .5rem; transform: translateY(-50%); }
.x { top: 100%; transform: translateX(-50%); padding-top: .3rem; }
.level { left: 0; right: 0; border-top: 1px dashed var(--ink); }
.level b { position: absolute; right: 0; bottom: 0; background: var(--paper); padding: 0 .3rem; z-index: 1; color: var(--ink); }
.level + .level b { bottom: auto; top: 2px; }
.axis { margin: 0; text-align: center; font-size: .85rem; color: var(--soft); max-width: none; }
polyline { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; }
polyline.c0 { stroke: var(--c0); } polyline.c1 { stroke: var(--c1); } polyline.c2 { stroke: var(--c2); }
polyline.c3 { stroke: var(--c3); } polyline.c4 { stroke: var(--c4); } polyline.c5 { stroke: var(--c5); }
polyline.c6 { stroke: var(--c6); }
";
