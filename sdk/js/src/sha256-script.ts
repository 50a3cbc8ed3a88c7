/** The same for `<script src>`: one global, the function. */
export { sha256 as default } from './sha256.js'
