"""`tokfmt browse --web`: the browser in a page, through textual-serve.

server     pages and websockets, each websocket with a process of its own
child      that process: started as this one was, in a group of its own, ended whatever it does
guard      who may read: a secret in the address, the Host and the Origin that a page of ours has
lifeline   in the child: ends it when the server is gone
page.*     what is sent; with the terminal and the font of textual-serve nothing else is fetched
"""
