// Numbers for people.

export function count(number) {
  return (number ?? 0).toLocaleString('en');
}

// `1 page`, `2 pages`.
export function several(number, name) {
  return `${count(number)} ${name}${number === 1 ? '' : 's'}`;
}

export function bytes(number) {
  let value = number ?? 0;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function percent(ratio) {
  return ratio === null || ratio === undefined ? 'none yet' : `${(ratio * 100).toFixed(1)} %`;
}

export function duration(seconds) {
  const sign = seconds < 0 ? '−' : '';
  const s = Math.abs(Math.round(seconds ?? 0));
  if (s < 120) {
    return `${sign}${s} s`;
  }
  if (s < 7200) {
    return `${sign}${Math.round(s / 60)} min`;
  }
  return s < 172800 ? `${sign}${Math.round(s / 3600)} h` : `${sign}${Math.round(s / 86400)} days`;
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hour12: false });
}

export function moment(seconds) {
  return new Date(seconds * 1000).toLocaleString('en', { dateStyle: 'medium', timeStyle: 'short', hour12: false });
}

// A time in microseconds that a histogram gives, as an upper bound.
export function milliseconds(us) {
  if (us === null) {
    return 'none yet';
  }
  if (us === Infinity) {
    return 'over 10 s';
  }
  return us < 1_000_000 ? `≤ ${us / 1000} ms` : `≤ ${us / 1_000_000} s`;
}
