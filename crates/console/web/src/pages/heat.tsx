// The heat map: time across, key ranges down. A zoom asks the server again for that rectangle; pixels are never stretched.

import { scaleLinear, scaleLog, scaleTime } from 'd3-scale';
import { interpolateRgbBasis } from 'd3-interpolate';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { findings, loadFindings } from '../advice';
import * as api from '../api';
import { hourMinute, short, whole } from '../format';
import { account, clock, go, here, isDark, link, resources } from '../store';
import { Busy, css, Empty, ErrorNote, Icon, Segments, useLoad } from '../ui';
import { Shell } from '../shell';

interface HeatKey { partition: string; row: string }
interface HeatView {
  columns: { from: number; to: number; has_data: boolean }[];
  rows: { label: string; from: HeatKey; to: HeatKey | null; keys: number; group: string; is_part: boolean }[];
  cells: { row: number; column: number; value: number; estimated: boolean }[];
  value_max: number;
  marks: { kind: 'hot' | 'append' | 'batch'; row_from: number; row_to: number; column_from: number; column_to: number; text: string; path: { row: number; column: number }[] }[];
}
type Metric = 'operations' | 'bytes' | 'latency' | 'rows-scanned';
interface Zoom { from: number; to: number; keyFrom: HeatKey | null; keyTo: HeatKey | null }

const UNITS: Record<Metric, [string, string]> = {
  operations: ['op/s', 'operations per second and range, log scale'], bytes: ['B/s', 'bytes per second and range, log scale'],
  latency: ['ms', 'p99 latency in milliseconds, log scale'], 'rows-scanned': ['rows/s', 'rows scanned per second and range, log scale'],
};
const WINDOWS: [string, number][] = [['15 min', 900], ['1 h', 3600], ['24 h', 86_400], ['7 d', 604_800]];
const MARKS: Record<string, [string, string, string[]]> = { hot: ['Hot range', 'Spread it', ['hot-partition', 'hot-account']], append: ['Append diagonal', 'See what to do', ['append-only']], batch: ['Batch job', '', []] };

/** Where the advisor says what to do about a mark: at its finding, if there is one. */
function advice(kind: string, table: string): string {
  const rules = MARKS[kind]?.[2] ?? [];
  const own = findings.value?.filter((finding) => finding.account === account.value && rules.includes(finding.rule)) ?? [];
  // A finding about the account names no table; one about this table says more.
  const found = own.find((finding) => finding.table.toLowerCase() === table.toLowerCase()) ?? own.find((finding) => !finding.table);
  return found ? `${link('advisor')}?at=${encodeURIComponent(found.id)}` : link('advisor');
}
/** Seven stops; more is always further from the ground. */
const LIGHT = ['#f8f8f6', '#fde7c4', '#fcba75', '#ee7958', '#c43e60', '#80246a', '#341046'];
const DARK = ['#16171b', '#30164a', '#681e6e', '#ac3468', '#e46250', '#faaa64', '#fdf0be'];
const REFRESH_MS = 15_000;
const LABEL_HEIGHT = 12;

export function HeatPage({ table }: { table: string }) {
  const tables = resources.value?.tables ?? [];
  const name = table || tables[0]?.name || '';
  const [metric, setMetric] = useState<Metric>((here.value.query.get('m') as Metric) || 'operations');
  const [window_, setWindow] = useState(3600);
  const [zooms, setZooms] = useState<Zoom[]>([]);
  const zoom = zooms[zooms.length - 1] ?? null;
  const [turn, setTurn] = useState(0);
  useEffect(() => { const timer = setInterval(() => setTurn((count) => count + 1), REFRESH_MS); return () => clearInterval(timer); }, []);
  useEffect(() => setZooms([]), [name]);
  useEffect(() => { void loadFindings(); }, []);
  const view = useLoad(async (signal) => {
    if (!name) return null;
    const end = Math.ceil(Date.now() / 60_000) * 60;
    const [from, to] = zoom ? [zoom.from, zoom.to] : [end - window_, end];
    const query: Record<string, string> = { account: account.value, table: name, from: String(from), to: String(to), metric };
    if (zoom?.keyFrom) { query['fromPartition'] = zoom.keyFrom.partition; query['fromRow'] = zoom.keyFrom.row; }
    if (zoom?.keyTo) { query['toPartition'] = zoom.keyTo.partition; query['toRow'] = zoom.keyTo.row; }
    return api.get<HeatView>('/api/heat', query, signal);
  }, [account.value, name, metric, window_, zoom, zoom ? 0 : turn]);
  const found = view.value;
  const back = () => setZooms(zooms.slice(0, -1));
  const width = found?.columns[0] ? found.columns[0].to - found.columns[0].from : 60;
  const title = <>Heat map <span class="crumb">/</span> <code>{name}</code></>;
  const range = (extra: string) => <Segments class={extra} label="Time range" value={String(window_)} onPick={(value) => { setWindow(Number(value)); setZooms([]); }} choices={WINDOWS.map(([label, value]) => ({ label, value: String(value) }))} />;
  const summary = zoom && found?.columns.length
    ? `${zoom.keyFrom?.partition ?? 'first key'} to ${zoom.keyTo?.partition ?? 'last key'} · ${hourMinute(zoom.from * 1000)} to ${hourMinute(zoom.to * 1000)}`
    : `All keys · ${WINDOWS.find(([, value]) => value === window_)?.[0]} · ${width >= 3600 ? '1 h' : `${Math.round(width / 60)} min`} × ${found?.rows.length ?? 0} ranges`;
  const isEmpty = found && !found.cells.length;
  return (
    <Shell title={title} label={`Heat map ${name}`} actions={range('hide-s')}>
      {range('only-s full underbar')}
      <div class="hm-bar">
        <Segments class="full" label="Metric" value={metric} onPick={setMetric} choices={[{ value: 'operations', label: 'Operations' }, { value: 'bytes', label: 'Bytes' }, { value: 'latency', label: 'Latency' }, { value: 'rows-scanned', label: 'Rows scanned' }]} />
        <label class="mini"><span class="sr">Table</span><select class="inp sm mono" value={name} onChange={(event) => go(link('heatmap', account.value, event.currentTarget.value))}>{tables.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}</select></label>
        <span class="dim small hide-s ellip hmsum" data-test="heat-summary">{summary}</span>
        {zoom && <button type="button" class="btn sm ghost" onClick={() => setZooms([])}><Icon name="undo" small />Whole range</button>}
        <span class="grow" />{!zoom && <span class="small dim hide-s">Drag to zoom · <kbd>Shift</kbd> drag for keys only · <kbd>Esc</kbd> back</span>}
      </div>
      {view.error && <ErrorNote error={view.error}><button type="button" class="btn sm" onClick={view.again}>Try again</button></ErrorNote>}
      <section class="panel" aria-label="Heat map">
        <Busy on={view.busy && !found} />
        {!name ? <Empty icon="heat" title="No tables yet">The map shows which keys of a table are asked for, and when.</Empty>
          : isEmpty ? <Empty icon="heat" title="No requests in this window" actions={zoom ? <button type="button" class="btn" onClick={back}>Back</button> : undefined}>The map of <code>{name}</code> fills as clients ask for its entities.</Empty>
          : found ? <Canvas view={found} metric={metric} isZoomed={zoom !== null} onZoom={(next) => setZooms([...zooms, next])} onBack={back} table={name} /> : <div class="hm placeholder" />}
      </section>
      {found && !isEmpty && <p class="small dim only-s touchhint">{zoom ? 'Tap twice to go back one step; Whole range shows all again.' : 'Tap a cell for its figures. Drag sideways over the map to zoom in.'}</p>}
      {found && found.marks.length > 0 && (
        <div class="panel seen">{found.marks.map((mark, index) => (
          <div key={index}><h2 class="row"><span class="mk">{index + 1}</span>{MARKS[mark.kind]?.[0]}</h2><p>{mark.text} {MARKS[mark.kind]?.[1] && <a href={advice(mark.kind, name)}>{MARKS[mark.kind]?.[1]}</a>}</p></div>
        ))}</div>
      )}
    </Shell>
  );
}

/** How much of its text every row of a group has, up to the last sign that parts it: it tells no row from another. */
function sharedLength(texts: string[], least: number): number {
  const [first = '', ...others] = texts;
  if (!others.length) return least;
  let length = first.length;
  for (const text of others) while (!text.startsWith(first.slice(0, length))) length--;
  while (length > least && !/[-_|:/. ]/.test(first[length - 1] ?? '')) length--;
  return Math.max(least, length);
}

/** What stands beside each row: its prefix, and of the rest what differs in its group. A part of a partition is named by RowKeys. */
function labels(rows: HeatView['rows']): string[] {
  type Row = HeatView['rows'][number];
  const shared = (group: (row: Row) => string, text: (row: Row) => string, least: (name: string) => number) => {
    const names = [...new Set(rows.map(group))];
    return new Map(names.map((name) => [name, sharedLength([...new Set(rows.filter((row) => group(row) === name).map(text).filter(Boolean))], least(name))]));
  };
  const keys = shared((row) => row.group, (row) => row.from.partition, (group) => group.length);
  const parts = shared((row) => (row.is_part ? row.from.partition : ''), (row) => (row.is_part ? row.from.row : ''), () => 0);
  return rows.map((row, index) => {
    const before = rows[index - 1];
    if (row.is_part && before?.is_part && before.from.partition === row.from.partition) return `  / ${row.from.row.slice(parts.get(row.from.partition) ?? 0)}`;
    const name = row.is_part ? row.from.partition : row.label;
    const cut = keys.get(row.group) ?? 0;
    // Without a prefix nothing stands in front of what differs, so it is told that something was dropped.
    return cut > row.group.length && row.from.partition.startsWith(row.group) ? `${row.group || '…'}${name.slice(cut)}` : name || '(empty)';
  });
}

interface Layout { left: number; top: number; width: number; height: number; rows: [number, number][]; cell: number; isSmall: boolean; total: number; bottom: number }

function Canvas({ view, metric, isZoomed, onZoom, onBack, table }: { view: HeatView; metric: Metric; isZoomed: boolean; onZoom: (zoom: Zoom) => void; onBack: () => void; table: string }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const legend = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ row: number; column: number } | null>(null);
  const [drag, setDrag] = useState<{ x: number; y: number; toX: number; toY: number; keysOnly: boolean; moved: boolean } | null>(null);
  const layout = useRef<Layout | null>(null);
  // A tip has the place that its cell had before the width changed.
  useLayoutEffect(() => setHover(null), [width]);
  const dark = isDark.value;
  const seconds = (column: number) => { const one = view.columns[column]; return one ? Math.max(1, one.to - one.from) : 1; };
  const values = useMemo(() => {
    const grid = new Float64Array(view.rows.length * view.columns.length);
    const estimated = new Set<number>();
    for (const cell of view.cells) {
      const at = cell.row * view.columns.length + cell.column;
      grid[at] = metric === 'latency' ? cell.value : cell.value / seconds(cell.column);
      if (cell.estimated) estimated.add(at);
    }
    return { grid, estimated, max: Math.max(1e-9, ...grid) };
  }, [view, metric]);
  const colour = useMemo(() => interpolateRgbBasis(dark ? DARK : LIGHT), [dark]);
  const shade = useMemo(() => scaleLog().domain([1, 71]).range([0, 1]).clamp(true), []);
  const level = (value: number) => (value <= 0 ? 0 : shade(1 + (value * 70) / values.max));
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    setWidth(element.clientWidth);
    return () => watch.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context || !width) return;
    const isSmall = innerWidth <= 800;
    const total = width - 32;
    const left = isSmall ? 92 : 176, right = isSmall ? 0 : 56, top = isSmall ? 26 : 34, axisHeight = 20;
    const H = isSmall ? 470 : Math.max(360, Math.min(620, Math.max(view.rows.length * 14 + 60, innerHeight - 330)));
    const ratio = Math.max(1, devicePixelRatio || 1);
    element.style.height = `${H}px`;
    element.width = total * ratio;
    element.height = H * ratio;
    context.scale(ratio, ratio);
    const plotWidth = total - left - right, plotHeight = H - top - axisHeight;
    const [text, text2, text3, line, surface, accent, bar] = ['--text', '--text-2', '--text-3', '--line', '--surface', '--accent', '--bar'].map(css) as [string, string, string, string, string, string, string];
    const [sans, mono] = [css('--sans'), css('--mono')];
    // Rows are of one height but for the parts of one hot partition; a change of prefix is a gap.
    const heights = view.rows.map((row) => (row.is_part ? 1.25 : 1));
    const gaps = view.rows.map((row, index): number => (index > 0 && view.rows[index - 1]?.group !== row.group ? 4 : 0));
    const unit = (plotHeight - gaps.reduce((sum, gap) => sum + gap, 0)) / Math.max(1, heights.reduce((sum, height) => sum + height, 0));
    const rows: [number, number][] = [];
    let y = top;
    view.rows.forEach((_, index) => { y += gaps[index] ?? 0; const height = (heights[index] ?? 1) * unit; rows.push([y, height]); y += height; });
    const cell = plotWidth / Math.max(1, view.columns.length);
    layout.current = { left, top, width: plotWidth, height: plotHeight, rows, cell, isSmall, total, bottom: H };
    const xOf = (column: number) => left + column * cell;
    const rowSums = view.rows.map(() => 0);
    const columnSums = view.columns.map(() => 0);
    // Percentiles do not add up: beside them stands the highest.
    const isPeak = metric === 'latency';
    const join = (sum: number, value: number) => (isPeak ? Math.max(sum, value) : sum + value);
    view.rows.forEach((_, row) => {
      const [at, height] = rows[row] ?? [0, 0];
      const from = Math.round(at), to = Math.round(at + height);
      view.columns.forEach((_, column) => {
        const value = values.grid[row * view.columns.length + column] ?? 0;
        rowSums[row] = join(rowSums[row] ?? 0, value);
        columnSums[column] = join(columnSums[column] ?? 0, value);
        const begin = Math.floor(xOf(column));
        context.fillStyle = colour(level(value));
        context.fillRect(begin, from, Math.ceil(xOf(column + 1)) - begin, to - from);
      });
    });
    // Where nothing was recorded: hatched, neighbours together.
    for (let index = 0; index < view.columns.length; index++) {
      if (view.columns[index]?.has_data !== false) continue;
      let end = index;
      while (view.columns[end + 1]?.has_data === false) end++;
      const begin = Math.round(xOf(index)), size = Math.max(2, Math.round(xOf(end + 1)) - begin);
      context.save();
      context.beginPath(); context.rect(begin, top, size, plotHeight); context.clip();
      context.fillStyle = surface; context.fillRect(begin, top, size, plotHeight);
      context.strokeStyle = text3; context.globalAlpha = 0.5;
      for (let offset = -size; offset < plotHeight + size; offset += 6) { context.beginPath(); context.moveTo(begin, top + offset + size); context.lineTo(begin + size, top + offset); context.stroke(); }
      context.restore();
      index = end;
    }
    // Totals, or the highest, over the keys above, over time beside.
    const topScale = scaleLinear().domain([0, Math.max(1e-9, ...columnSums)]).range([0, top - 8]);
    context.fillStyle = bar;
    columnSums.forEach((sum, column) => { const height = topScale(sum); context.fillRect(xOf(column), top - 4 - height, Math.max(1, cell - 0.3), height); });
    if (right) {
      const sideScale = scaleLinear().domain([0, Math.max(1e-9, ...rowSums)]).range([0, right - 8]);
      rowSums.forEach((sum, row) => { const [at, height] = rows[row] ?? [0, 0]; context.fillRect(left + plotWidth + 6, at + 1, Math.max(1, sideScale(sum)), Math.max(1, height - 2)); });
    }
    if (!isSmall) { context.font = `11px ${sans}`; context.fillStyle = text3; context.textBaseline = 'alphabetic'; context.textAlign = 'left'; context.fillText(isPeak ? 'highest over keys' : 'total over keys', 0, top - 8); }
    // The first label of each group, then as many as fit.
    const names = labels(view.rows);
    let lastLabel = -99;
    view.rows.forEach((row, index) => {
      const [at, height] = rows[index] ?? [0, 0];
      const before = view.rows[index - 1];
      const first = index === 0 || before?.group !== row.group;
      const isSlice = row.is_part && before?.is_part === true && before.from.partition === row.from.partition;
      if (first) { context.strokeStyle = line; context.beginPath(); context.moveTo(0, Math.round(at - 2) + 0.5); context.lineTo(left - 4, Math.round(at - 2) + 0.5); context.stroke(); }
      // A label that the line of the next group would strike through is left out.
      const nextGap = rows[view.rows.findIndex((other, place) => place > index && other.group !== row.group)]?.[0] ?? Infinity;
      if (nextGap - 2 - at - (height > 13 ? (height - 11) / 2 : 0) < LABEL_HEIGHT) return;
      if (at - lastLabel < (first || (row.is_part && !isSlice) ? 12 : 24)) return;
      const strong = first || (row.is_part && !isSlice);
      const name = names[index] ?? '';
      context.font = `${strong ? '600 ' : ''}11px ${mono}`; context.fillStyle = strong ? text : text2; context.textBaseline = 'top'; context.textAlign = 'left';
      const shift = height > 13 ? (height - 11) / 2 : 0;
      const count = row.is_part ? 'slice' : row.keys === 1 ? '1 key' : `${short(row.keys)} keys`;
      context.fillText(fit(context, name, isSmall ? left - 6 : left - 62), 0, at + shift);
      if (!isSmall) { context.font = `10px ${sans}`; context.fillStyle = text3; context.textAlign = 'right'; context.fillText(count, left - 8, at + 1 + shift); }
      lastLabel = at;
    });
    // Time.
    const first = view.columns[0], last = view.columns[view.columns.length - 1];
    if (first && last) {
      const time = scaleTime().domain([new Date(first.from * 1000), new Date(last.to * 1000)]).range([left, left + plotWidth]);
      const format = time.tickFormat(isSmall ? 3 : 7, last.to - first.from > 86_400 * 2 ? '%d.%m.' : '%H:%M');
      context.font = `11px ${sans}`; context.textBaseline = 'bottom'; context.textAlign = 'center';
      for (const tick of time.ticks(isSmall ? 3 : 7)) { const x = time(tick); context.fillStyle = line; context.fillRect(Math.round(x), top + plotHeight, 1, 4); context.fillStyle = text3; if (x < left + plotWidth - 40) context.fillText(format(tick), Math.max(x, left + 14), H - 1); }
      if (clock.value / 1000 - last.to < 180) { context.textAlign = 'right'; context.fillStyle = text3; context.fillText('now', left + plotWidth, H - 1); }
    }
    // Marks.
    view.marks.forEach((mark, index) => {
      const [y0] = rows[mark.row_from] ?? [top, 0];
      const end = rows[mark.row_to] ?? [top + plotHeight, 0];
      const [x0, x1, y1] = [xOf(mark.column_from), xOf(mark.column_to + 1), end[0] + end[1]];
      context.strokeStyle = text; context.lineWidth = 1.5;
      let [bx, by] = [x0 - 12, (y0 + y1) / 2];
      if (mark.kind === 'append') {
        const middle = (row: number) => { const [at, height] = rows[row] ?? [top, 0]; return at + height / 2; };
        context.setLineDash([4, 3]); context.beginPath();
        mark.path.forEach((point, place) => { const [x, y] = [xOf(point.column + 0.5), middle(point.row)]; if (place) context.lineTo(x, y); else context.moveTo(x, y); });
        context.stroke(); context.setLineDash([]);
        [bx, by] = [(x0 + x1) / 2 + 14, (y0 + y1) / 2 - 12];
      }
      else if (mark.kind === 'hot') context.strokeRect(x0 - 1, y0 - 1.5, x1 - x0 + 1, y1 - y0 + 3);
      else [bx, by] = [(x0 + x1) / 2, (y0 + y1) / 2];
      context.fillStyle = text; context.beginPath(); context.arc(Math.max(left + 10, bx), by, 9, 0, 7); context.fill(); context.strokeStyle = surface; context.stroke();
      context.fillStyle = css('--bg'); context.font = `600 11px ${sans}`; context.textAlign = 'center'; context.textBaseline = 'middle'; context.fillText(String(index + 1), Math.max(left + 10, bx), by + 0.5);
      context.lineWidth = 1;
    });
    if (hover && rows[hover.row] && hover.column < view.columns.length) {
      const [at, height] = rows[hover.row] ?? [0, 0];
      context.strokeStyle = accent; context.globalAlpha = 0.55; context.beginPath(); context.moveTo(xOf(hover.column + 0.5), top); context.lineTo(xOf(hover.column + 0.5), top + plotHeight); context.stroke(); context.globalAlpha = 1;
      for (const [size, style] of [[5, surface], [2, accent]] as const) { context.lineWidth = size; context.strokeStyle = style; context.strokeRect(xOf(hover.column) - 2, at - 1, Math.max(cell, 3) + 4, height + 2); }
      context.lineWidth = 1;
    }
    if (drag?.moved) {
      const [x, w] = drag.keysOnly ? [left, plotWidth] : [Math.min(drag.x, drag.toX), Math.abs(drag.toX - drag.x)];
      const [yy, h] = [Math.min(drag.y, drag.toY), Math.abs(drag.toY - drag.y)];
      context.fillStyle = accent; context.globalAlpha = 0.15; context.fillRect(x, yy, w, h); context.globalAlpha = 1; context.strokeStyle = accent; context.strokeRect(x, yy, w, h);
    }
    const scale = legend.current?.getContext('2d');
    if (scale) for (let x = 0; x < 440; x++) { scale.fillStyle = colour(x / 440); scale.fillRect(x, 0, 1, 20); }
  }, [view, values, metric, width, dark, hover, drag]);

  const at = (event: PointerEvent) => {
    const place = layout.current, bounds = canvas.current?.getBoundingClientRect();
    if (!place || !bounds) return null;
    const x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    const row = place.rows.findIndex(([from, height]) => y >= from && y < from + height + 4);
    const column = Math.floor((x - place.left) / place.cell);
    return { x, y, row, column: Math.max(-1, Math.min(view.columns.length - 1, column)) };
  };
  const onMove = (event: PointerEvent) => {
    const spot = at(event);
    if (!spot) return;
    if (drag) setDrag({ ...drag, toX: spot.x, toY: spot.y, keysOnly: event.shiftKey, moved: drag.moved || Math.abs(spot.x - drag.x) + Math.abs(spot.y - drag.y) > 8 });
    else if (spot.row >= 0 && spot.column >= 0 && spot.x >= (layout.current?.left ?? 0)) { if (hover?.row !== spot.row || hover.column !== spot.column) setHover({ row: spot.row, column: spot.column }); }
  };
  const onUp = (event: PointerEvent) => {
    const spot = at(event), place = layout.current;
    if (!drag || !spot || !place) return setDrag(null);
    setDrag(null);
    if (!drag.moved) {
      // A finger has no hover: a tap shows the cell, with a link to its entities.
      if (event.pointerType === 'touch') setHover(spot.row >= 0 && spot.column >= 0 ? { row: spot.row, column: spot.column } : null);
      else if (spot.row >= 0) openEntities(spot.row);
      return;
    }
    const rowAt = (y: number) => { const found = place.rows.findIndex(([from, height]) => y < from + height + 4); return found < 0 ? view.rows.length - 1 : found; };
    const [r0, r1] = [rowAt(Math.min(drag.y, spot.y)), rowAt(Math.max(drag.y, spot.y))];
    const columnAt = (x: number) => Math.max(0, Math.min(view.columns.length - 1, Math.floor((x - place.left) / place.cell)));
    const [c0, c1] = drag.keysOnly ? [0, view.columns.length - 1] : [columnAt(Math.min(drag.x, spot.x)), columnAt(Math.max(drag.x, spot.x))];
    const [from, to] = [view.columns[c0]?.from ?? 0, view.columns[c1]?.to ?? 0];
    const middle = (from + to) / 2;
    setHover(null);
    onZoom({ from: Math.min(from, middle - 120), to: Math.max(to, middle + 120), keyFrom: view.rows[r0]?.from ?? null, keyTo: view.rows[r1]?.to ?? null });
  };
  const entitiesOf = (row: number): string => {
    const range = view.rows[row];
    if (!range) return link('table', account.value, table);
    const quote = (key: string) => `'${key.replace(/'/g, "''")}'`;
    const isOne = !range.is_part && range.to !== null && range.to.partition === `${range.from.partition}\u0000`;
    const filter = isOne ? [`PartitionKey eq ${quote(range.from.partition)}`] : range.is_part || (range.to && range.to.partition === range.from.partition)
      ? [`PartitionKey eq ${quote(range.from.partition)}`, ...(range.from.row ? [`RowKey ge ${quote(range.from.row)}`] : []), ...(range.to && range.to.partition === range.from.partition && range.to.row ? [`RowKey lt ${quote(range.to.row)}`] : [])]
      : [`PartitionKey ge ${quote(range.from.partition)}`, ...(range.to ? [`PartitionKey lt ${quote(range.to.partition)}`] : [])];
    return `${link('table', account.value, table)}?filter=${encodeURIComponent(filter.join(' and '))}`;
  };
  const openEntities = (row: number) => go(entitiesOf(row));
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') { onBack(); return; }
    if (event.key === 'Enter' && hover) { openEntities(hover.row); return; }
    const step: Record<string, [number, number]> = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    const move = step[event.key];
    if (!move) return;
    event.preventDefault();
    const now = hover ?? { row: 0, column: 0 };
    setHover({ row: Math.max(0, Math.min(view.rows.length - 1, now.row + move[0])), column: Math.max(0, Math.min(view.columns.length - 1, now.column + move[1])) });
  };
  useEffect(() => {
    const escape = (event: KeyboardEvent) => { if (event.key === 'Escape' && isZoomed) onBack(); };
    addEventListener('keydown', escape);
    return () => removeEventListener('keydown', escape);
  }, [isZoomed, onBack]);
  const save = () => { const link = document.createElement('a'); link.href = canvas.current?.toDataURL('image/png') ?? ''; link.download = `heat-${table}.png`; link.click(); };
  const steps = [0, 0.25, 0.5, 0.75, 1].map((part) => (part ? ((shade.invert(part) - 1) / 70) * values.max : 0));
  const described = `Heat map of ${UNITS[metric][1]}: ${view.rows.length} key ranges, ${view.columns.length} columns. ${view.marks.map((mark) => mark.text).join(' ')} Arrow keys move the cell, Enter opens its entities.`;
  const place = layout.current;
  return (
    <>
      <div class="hm" ref={box}>
        <canvas ref={canvas} tabIndex={0} role="application" aria-label={described} onPointerMove={onMove} onPointerLeave={(event) => { if (!drag && event.pointerType !== 'touch') setHover(null); }} onPointerCancel={() => setDrag(null)} onPointerDown={(event) => { const spot = at(event); if (spot && event.button === 0) { canvas.current?.setPointerCapture(event.pointerId); setDrag({ x: spot.x, y: spot.y, toX: spot.x, toY: spot.y, keysOnly: event.shiftKey, moved: false }); } }} onPointerUp={onUp} onDblClick={onBack} onKeyDown={onKey} />
        {hover && !drag?.moved && place && <Tip view={view} metric={metric} values={values} hover={hover} place={place} entities={entitiesOf(hover.row)} />}
      </div>
      <div class="hm-foot"><div class="scale"><canvas ref={legend} width={440} height={20} aria-hidden="true" /><div class="t">{steps.map((value, index) => <span key={index}>{short(value)}</span>)}</div></div>
        <span>{UNITS[metric][1]}</span><span class="grow" /><span class="row"><i class="hs" />no data</span><button type="button" class="btn sm" onClick={save}>Save as PNG</button></div>
    </>
  );
}

function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let cut = text.slice(0, 40);
  while (cut && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}

function Tip({ view, metric, values, hover, place, entities }: { entities: string; view: HeatView; metric: Metric; values: { grid: Float64Array; estimated: Set<number> }; hover: { row: number; column: number }; place: Layout }) {
  const row = view.rows[hover.row], column = view.columns[hover.column];
  if (!row || !column) return null;
  const index = hover.row * view.columns.length + hover.column;
  const value = values.grid[index] ?? 0;
  const total = view.rows.reduce((sum, _, at) => sum + (values.grid[at * view.columns.length + hover.column] ?? 0), 0);
  const [at, height] = place.rows[hover.row] ?? [0, 0];
  const x = place.left + (hover.column + 0.5) * place.cell + 16;
  const left = x + 14 + 268 > place.total + 16 ? x - 268 - 14 : x + 14;
  const style = place.isSmall ? {} : { left: `${Math.max(8, left)}px`, top: `${Math.min(at + height + 12, place.bottom - 170)}px` };
  return (
    <div class={`tip ${place.isSmall ? 'dock' : ''}`} role="status" style={style} data-test="tip">
      <div class="k"><bdi>{row.from.partition || '(first key)'}</bdi><br /><span class="dim">{row.is_part ? <>RowKey from <bdi>{row.from.row || 'the first'}</bdi> to <bdi>{row.to?.row || 'the last'}</bdi></> : <>up to <bdi>{row.to ? row.to.partition : 'the last key'}</bdi></>}</span></div>
      <dl><dt>{hourMinute(column.from * 1000)}–{hourMinute(column.to * 1000)}</dt><dd>{column.has_data ? <b>{short(value)} {UNITS[metric][0]}</b> : 'no data'}</dd>
        {metric !== 'latency' && <><dt>Share of this column</dt><dd>{total ? `${((value / total) * 100).toFixed(1)} %` : '–'}</dd></>}
        <dt>Keys in range</dt><dd>{row.is_part ? '1, split by row' : whole(row.keys)}</dd>{values.estimated.has(index) && <><dt>Estimated</dt><dd>from a coarser range</dd></>}</dl>
      {place.isSmall ? <a class="btn sm tipfoot" href={entities}>Open these entities</a> : <div class="faint xs tipfoot">Click to open these entities</div>}
    </div>
  );
}
