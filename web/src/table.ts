/** The numbers behind a chart, as rows: for the table beside it and for the file. */

export type Cell = string | number | null

export interface Table {
  columns: string[]
  rows: Cell[][]
}

/** RFC 4180, with CRLF as it asks for. */
export function toCsv({ columns, rows }: Table): string {
  return [columns, ...rows].map((row) => row.map(field).join(',') + '\r\n').join('')
}

/** Hands the table to the person as a file. */
export function download(name: string, table: Table): void {
  const url = URL.createObjectURL(new Blob([toCsv(table)], { type: 'text/csv;charset=utf-8' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}

function field(cell: Cell): string {
  const text = typeof cell === 'string' ? harmless(cell) : String(cell ?? '')
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Event names come from anybody; a spreadsheet would run one that starts like a formula. */
function harmless(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
}
