/** Variables as the server reads and returns them. */
import type { Json } from '../../json'

export interface Percent {
  from?: number
  to: number
  /** Bucketing seed; the variable's name if absent. */
  salt?: string
}

export interface Condition {
  name: string
  value: Json
  country?: string[]
  platform?: string[]
  version?: string[]
  segment?: string[]
  percent?: Percent
  /** RFC 3339. */
  starts_at?: string
  ends_at?: string
}

export interface Definition {
  value: Json
  default?: Json
  schema?: Json
  conditions?: Condition[]
  description?: string
  /** RFC 3339. */
  starts_at?: string
  ends_at?: string
}

export interface Definitions {
  /** Version of all variables together; each change increments it. */
  version: number
  vars: Record<string, Definition>
}

export interface VarChange {
  before: Definition | null
  after: Definition | null
}

export interface Change {
  version: number
  /** RFC 3339. */
  at: string
  by: string
  rolled_back_to?: number
  changed: Record<string, VarChange>
}

export interface History {
  /** Newest first. */
  changes: Change[]
}
