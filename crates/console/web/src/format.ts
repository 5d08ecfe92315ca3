// Numbers, sizes and times as people read them.

export const whole = (value: number) => Math.round(value).toLocaleString('en-US');

/** 1,284 · 12.8 k · 1.3 M */
export function short(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)}G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)}k`;
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)}k`;
  return value >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit++; }
  return `${unit && value < 100 ? value.toFixed(1) : value.toFixed(0)} ${units[unit]}`;
}

export function ms(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return value >= 10 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

const pad = (value: number) => String(value).padStart(2, '0');

export function clockTime(milliseconds: number): string {
  const time = new Date(milliseconds);
  const seconds = (time.getSeconds() + time.getMilliseconds() / 1000).toFixed(2).padStart(5, '0');
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${seconds}`;
}

export const hourMinute = (milliseconds: number) => {
  const time = new Date(milliseconds);
  return `${pad(time.getHours())}:${pad(time.getMinutes())}`;
};

/** 23 s · 1 min 58 s · 2 h 5 min · 6 d */
export function span(seconds: number): string {
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) { const rest = seconds % 60; return `${Math.floor(seconds / 60)} min${rest ? ` ${rest} s` : ''}`; }
  if (seconds < 86400) { const rest = Math.floor((seconds % 3600) / 60); return `${Math.floor(seconds / 3600)} h${rest ? ` ${rest} min` : ''}`; }
  const hours = Math.floor((seconds % 86400) / 3600);
  return `${Math.floor(seconds / 86400)} d${hours && seconds < 10 * 86400 ? ` ${hours} h` : ''}`;
}

export const PLAN_NAMES: Record<string, string> = {
  point: 'point read', index: 'index', range: 'range', pscan: 'partition scan', prange: 'partition range', tscan: 'table scan', write: 'write',
};
/** The word of the server for a plan, to the class that colours it. */
export const PLAN_CLASS: Record<string, string> = {
  point: 'point', range: 'range', 'partition-scan': 'pscan', 'partition-range': 'prange', 'table-scan': 'tscan',
};
