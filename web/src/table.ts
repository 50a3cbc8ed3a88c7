/** Tabular data of a card: shown as a table and downloaded as CSV. */

export type Cell = string | number | null

export interface Table {
  columns: string[]
  rows: Cell[][]
}

/** Serializes a table as CSV (RFC 4180, lines end with CRLF). */
export function toCsv({ columns, rows }: Table): string {
  return [columns, ...rows].map((row) => row.map(csvField).join(',') + '\r\n').join('')
}

/** Downloads a table as a CSV file. */
export function download(name: string, table: Table): void {
  const url = URL.createObjectURL(new Blob([toCsv(table)], { type: 'text/csv;charset=utf-8' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}

function csvField(cell: Cell): string {
  const text = typeof cell === 'string' ? escapeFormula(cell) : String(cell ?? '')
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Event names are untrusted input; a spreadsheet would run one that starts like a formula. */
function escapeFormula(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
}
