/** The same for `<script src>`: one global, the class. Errors are told apart by their `code`. */
export { Playmeter as default } from './playmeter.js'
