/** A request that is answered with a problem document. */
export class Refused extends Error {
  constructor(status, detail, field) {
    super(detail)
    this.status = status
    this.field = field
  }
}
