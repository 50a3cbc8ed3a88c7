/** Thrown by the mock to answer a request with problem details. */
export class ProblemError extends Error {
  constructor(status, detail, field) {
    super(detail)
    this.status = status
    this.field = field
  }
}
